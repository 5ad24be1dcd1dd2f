package gate

import (
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/throttle"
)

// ScanDepth bounds how many jobs that are too heavy a claim reads past.
const ScanDepth = 1000

// Admission decides which jobs of a queue with gates one claim may start, in order. It reads the
// candidates from its source, and nothing else.
type Admission struct {
	*queueGates
	Source source
	r      driver.ClaimRequest
	Admit  []Candidate

	asked   map[int64]bool
	askedOf map[string]int // of each lane
	moves   []move
	Pass    *pass            // of the throttler; nil if there is none
	flight  *throttle.Flight // and the weight in flight for it
	known   map[int64]*throttle.Candidate
	cursor  scanCursor        // of the throttler's queue: where this claim begins, then where the next one does
	refused bool              // a candidate was held back whose followers may start
	weighty bool              // a candidate was held back for lack of weight
	Heavy   *jobrow.Candidate // does not fit into the worker's room, and must not be passed over
	Err     error             // of reading one candidate
	Opens   int64             // when a gate opens that holds a candidate back; 0 = not known
}

// ask admits one candidate or returns the gate that holds it back. A job too heavy for this worker
// is left to other workers, unless only the worker's room is missing and the job has waited for the
// claim's reserve.
func (a *Admission) ask(e *Candidate) sojourn.Gate {
	if e.Weight > a.r.Capacity {
		a.refused = true
		if a.Heavy == nil && a.Err == nil {
			yes, err := a.Source.Reserves(e.ID)
			if a.Err = err; yes && a.Flow.Ask(e.Asks()).Open {
				a.Heavy = &e.Candidate
			}
		}
		return sojourn.Gate{Scope: rules.ScopeGroup}
	}
	a.noteAsked(e)
	c := e.Asks()
	g := a.Flow.Ask(c)
	if g.Open {
		a.Flow.Start(c)
		if a.flight != nil && e.Purpose == sojourn.PurposeStart {
			a.flight.Add(c)
		}
		a.Admit = append(a.Admit, *e)
		return g
	}
	a.Flow.Refuse(c, g)
	if g.Fail != "" || !g.Later.IsZero() {
		a.moves = append(a.moves, move{e.ID, g.Later, g.Fail})
	}
	a.refused = a.refused || g.Scope == rules.ScopeJob
	a.weighty = a.weighty || g.Name == sojourn.GateLimit
	if !g.Until.IsZero() {
		a.opensBy(g.Until.UnixMicro())
	}
	return g
}

// askInOrder asks the gates for each candidate that was not asked about yet.
func (a *Admission) askInOrder(all []Candidate) {
	SortCandidates(all)
	for i := range all {
		if e := &all[i]; len(a.Admit) < a.r.Max && !a.asked[e.ID] {
			a.ask(e)
		}
	}
}

// critical admits jobs without weight.
func (a *Admission) critical() error {
	all, err := a.Source.Next(jobrow.LaneCritical, jobrow.Candidate{}, a.r.Max)
	if err == nil {
		a.askInOrder(all)
	}
	return err
}

// front admits the first jobs in order of a queue without groups, merged with those in all. It
// skips jobs that are too heavy, but no further than ScanDepth. Jobs without weight have a lane of
// their own, so that a full limit does not hide them.
func (a *Admission) front(all []Candidate, full bool) error {
	for _, far := range []int{a.r.Max, a.r.Max + ScanDepth} {
		if full || len(a.Admit) >= a.r.Max || far > a.r.Max && !a.refused {
			break
		}
		more, err := a.Source.Front(far)
		if err != nil {
			return err
		}
		all = append(all, more...)
		a.askInOrder(all)
	}
	if !full && !a.weighty {
		return nil
	}
	if err := a.critical(); err != nil {
		return err
	}
	slices.SortStableFunc(a.Admit, func(a, b Candidate) int { return jobrow.Before(a.Candidate, b.Candidate) })
	return nil
}

// opensBy makes an empty claim try again at that time, at the latest.
func (a *Admission) opensBy(us int64) {
	if a.Opens == 0 || us < a.Opens {
		a.Opens = us
	}
}

// run asks the gates about the candidates of the queue.
func (a *Admission) run() error {
	g, full := a.Flow.Closed(), a.Row.Limit > 0 && (a.Flow.Used >= a.Row.Limit || a.Flow.State.Counting)
	apart := !g.Open || full || rules.Grouped(a.Row.QueueSettings) || a.Flow.HeadFirst() // else these jobs are at the head of the line anyhow
	going, err := a.Source.Going(apart)
	if err != nil {
		return err
	}
	if apart {
		a.askInOrder(going)
		going = nil
	}
	if !g.Open { // no new job of the queue starts
		if !g.Until.IsZero() {
			a.opensBy(g.Until.UnixMicro())
		}
		return nil
	}
	if h := a.head; a.Flow.HeadFirst() && slices.Contains(a.r.Kinds, h.Kind) {
		a.ask(&h)
	}
	if rules.Grouped(a.Row.QueueSettings) {
		return a.takeTurns()
	}
	return a.front(going, full)
}

// Candidate is a candidate of a queue with gates.
type Candidate struct {
	jobrow.Candidate
	Kind, Lane string
	Purpose    sojourn.Purpose
}

func (e *Candidate) Asks() *throttle.Candidate {
	return &throttle.Candidate{ID: sojourn.ID(e.ID), Kind: e.Kind, Group: groupOf(e.Lane), Weight: int32(e.Weight), Purpose: e.Purpose}
}

// move is a candidate that a gate has put off or failed.
type move struct {
	id    int64
	later time.Time
	fail  string
}

// newAdmission is an admission that has not asked about any job.
func newAdmission(q *queueGates, s source, r driver.ClaimRequest) *Admission {
	return &Admission{queueGates: q, Source: s, r: r, asked: map[int64]bool{}, askedOf: map[string]int{}}
}

// SortCandidates sorts jobs by the order of their queue.
func SortCandidates(all []Candidate) {
	slices.SortFunc(all, func(a, b Candidate) int { return jobrow.Before(a.Candidate, b.Candidate) })
}

func (a *Admission) noteAsked(e *Candidate) {
	a.asked[e.ID] = true
	a.askedOf[e.Lane]++
}

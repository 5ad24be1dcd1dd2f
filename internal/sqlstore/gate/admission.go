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

// ScanDepth bounds how many candidates a claim reads, or checks, beyond those that it may start.
// Otherwise a long run of jobs that are too heavy would make each claim read the whole queue.
const ScanDepth = 1000

// Candidate is a job that a claim may take from a queue with gates.
type Candidate struct {
	jobrow.Candidate
	Kind    string
	Lane    string
	Purpose sojourn.Purpose // of the step that would start
}

// ForGates returns the candidate as rules.Flow sees it. A throttler sees more, which Describe
// reads.
func (c *Candidate) ForGates() *throttle.Candidate {
	return &throttle.Candidate{ID: sojourn.ID(c.ID), Kind: c.Kind, Group: groupOf(c.Lane), Weight: int32(c.Weight), Purpose: c.Purpose}
}

// SortCandidates sorts jobs by the order of their queue, see jobrow.CompareCandidates.
func SortCandidates(all []Candidate) {
	slices.SortFunc(all, func(a, b Candidate) int { return jobrow.CompareCandidates(a.Candidate, b.Candidate) })
}

// Admission decides which jobs of a queue with gates one claim may start, in order. It reads the
// candidates from its source, and nothing else.
type Admission struct {
	*queueGates
	Source source
	r      driver.ClaimRequest

	Admitted []Candidate       // in the order of their starts
	Heavy    *jobrow.Candidate // does not fit into the worker's room, and must not be passed over
	Opens    int64             // when a gate opens that holds a candidate back; 0 = not known
	Err      error             // of reading whether Heavy must not be passed over
	moves    []move

	checked   map[int64]bool
	checkedIn map[string]int // lane → how many
	refused   bool           // a candidate was held back whose followers may start
	weighty   bool           // a candidate was held back for lack of weight

	Pass   *pass                         // of the throttler; nil if there is none
	flight *throttle.Flight              // the jobs in flight, for the throttler
	known  map[int64]*throttle.Candidate // what the throttler sees of jobs, as read
	cursor scanCursor                    // where the scan of the throttled queue begins, then where the next one does
}

// move is a candidate that a throttler has put off or failed.
type move struct {
	id    int64
	later time.Time // 0: it is not put off
	fail  string    // the reason; "": it does not fail
}

// newAdmission returns an admission that has not checked any job.
func newAdmission(q *queueGates, s source, r driver.ClaimRequest) *Admission {
	return &Admission{queueGates: q, Source: s, r: r, checked: map[int64]bool{}, checkedIn: map[string]int{}}
}

// run checks the candidates of the queue. Jobs that continue come first: most gates concern only
// new jobs. If no such gate may be closed, they are merged with the front of the queue, which saves
// a read.
func (a *Admission) run() error {
	g, full := a.Flow.Closed(), a.Row.Limit > 0 && (a.Flow.Used >= a.Row.Limit || a.Flow.State.Counting)
	separate := !g.Open || full || rules.Grouped(a.Row.QueueSettings) || a.Flow.HeadFirst()
	continuing, err := a.Source.Continuing(separate)
	if err != nil {
		return err
	}
	if separate {
		a.checkInOrder(continuing)
		continuing = nil
	}
	if !g.Open { // no new job of the queue starts
		if !g.Until.IsZero() {
			a.opensBy(g.Until.UnixMicro())
		}
		return nil
	}
	if h := a.head; a.Flow.HeadFirst() && slices.Contains(a.r.Kinds, h.Kind) {
		a.check(&h)
	}
	if rules.Grouped(a.Row.QueueSettings) {
		return a.takeTurns()
	}
	return a.front(continuing, full)
}

// front admits the first jobs in order of a queue without groups, merged with those in all. It
// skips jobs that are too heavy, but no further than ScanDepth. Jobs without weight have a lane of
// their own, so that a full limit does not hide them.
func (a *Admission) front(all []Candidate, full bool) error {
	for _, far := range []int{a.r.Max, a.r.Max + ScanDepth} {
		if full || len(a.Admitted) >= a.r.Max || far > a.r.Max && !a.refused {
			break
		}
		more, err := a.Source.Front(far)
		if err != nil {
			return err
		}
		all = append(all, more...)
		a.checkInOrder(all)
	}
	if !full && !a.weighty {
		return nil
	}
	if err := a.critical(); err != nil {
		return err
	}
	slices.SortStableFunc(a.Admitted, func(a, b Candidate) int { return jobrow.CompareCandidates(a.Candidate, b.Candidate) })
	return nil
}

// critical admits jobs without weight, which no limit holds back.
func (a *Admission) critical() error {
	all, err := a.Source.Next(jobrow.LaneCritical, jobrow.Candidate{}, a.r.Max)
	if err == nil {
		a.checkInOrder(all)
	}
	return err
}

// checkInOrder checks the candidates that were not checked yet, until the claim is full.
func (a *Admission) checkInOrder(all []Candidate) {
	SortCandidates(all)
	for i := range all {
		if e := &all[i]; len(a.Admitted) < a.r.Max && !a.checked[e.ID] {
			a.check(e)
		}
	}
}

// check admits one candidate, or returns the gate that holds it back. A job that is too heavy for
// this worker is left to other workers. But if it has waited for the claim's reserve, and all gates
// are open, it becomes Heavy: then no job behind it is taken, so that room drains.
func (a *Admission) check(e *Candidate) sojourn.Gate {
	if e.Weight > a.r.Capacity {
		a.refused = true
		if a.Heavy == nil && a.Err == nil {
			yes, err := a.Source.Reserves(e.ID)
			if a.Err = err; yes && a.Flow.Ask(e.ForGates()).Open {
				a.Heavy = &e.Candidate
			}
		}
		return sojourn.Gate{Scope: rules.ScopeGroup}
	}
	a.noteChecked(e)
	c := e.ForGates()
	g := a.Flow.Ask(c)
	if g.Open {
		a.Flow.Start(c)
		if a.flight != nil && e.Purpose == sojourn.PurposeStart {
			a.flight.Add(c)
		}
		a.Admitted = append(a.Admitted, *e)
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

// noteChecked counts a candidate as checked.
func (a *Admission) noteChecked(e *Candidate) {
	a.checked[e.ID] = true
	a.checkedIn[e.Lane]++
}

// opensBy makes an empty claim try again at a time, at the latest.
func (a *Admission) opensBy(us int64) {
	if a.Opens == 0 || us < a.Opens {
		a.Opens = us
	}
}

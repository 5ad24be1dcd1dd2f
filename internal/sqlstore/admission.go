package sqlstore

import (
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/throttle"
)

// scanDepth bounds how many jobs that are too heavy a claim reads past.
const scanDepth = 1000

// admission decides which jobs of a queue with gates one claim may start, in order. It reads the
// candidates from its source, and nothing else.
type admission struct {
	*queueGates
	source source
	r      driver.ClaimRequest
	admit  []gateCandidate

	asked   map[int64]bool
	askedOf map[string]int // of each lane
	moves   []move
	pass    *pass            // of the throttler; nil if there is none
	flight  *throttle.Flight // and the weight in flight for it
	known   map[int64]*throttle.Candidate
	cursor  scanCursor // of the throttler's queue: where this claim begins, then where the next one does
	refused bool       // a candidate was held back whose followers may start
	weighty bool       // a candidate was held back for lack of weight
	heavy   *candidate // does not fit into the worker's room, and must not be passed over
	err     error      // of reading one candidate
	opens   int64      // when a gate opens that holds a candidate back; 0 = not known
}

// ask admits one candidate or returns the gate that holds it back. A job too heavy for this worker
// is left to other workers, unless only the worker's room is missing and the job has waited for the
// claim's reserve.
func (a *admission) ask(e *gateCandidate) sojourn.Gate {
	if e.weight > a.r.Capacity {
		a.refused = true
		if a.heavy == nil && a.err == nil {
			yes, err := a.source.Reserves(e.id)
			if a.err = err; yes && a.flow.Ask(e.asks()).Open {
				a.heavy = &e.candidate
			}
		}
		return sojourn.Gate{Scope: sojourn.ScopeGroup}
	}
	a.noteAsked(e)
	c := e.asks()
	g := a.flow.Ask(c)
	if g.Open {
		a.flow.Start(c)
		if a.flight != nil && e.purpose == sojourn.PurposeStart {
			a.flight.Add(c)
		}
		a.admit = append(a.admit, *e)
		return g
	}
	a.flow.Refuse(c, g)
	if g.Fail != "" || !g.Later.IsZero() {
		a.moves = append(a.moves, move{e.id, g.Later, g.Fail})
	}
	a.refused = a.refused || g.Scope == sojourn.ScopeJob
	a.weighty = a.weighty || g.Name == sojourn.GateLimit
	if !g.Until.IsZero() {
		a.opensBy(g.Until.UnixMicro())
	}
	return g
}

// askInOrder asks the gates for each candidate that was not asked about yet.
func (a *admission) askInOrder(all []gateCandidate) {
	sortCandidates(all)
	for i := range all {
		if e := &all[i]; len(a.admit) < a.r.Max && !a.asked[e.id] {
			a.ask(e)
		}
	}
}

// critical admits jobs without weight.
func (a *admission) critical() error {
	all, err := a.source.Next(laneCritical, candidate{}, a.r.Max)
	if err == nil {
		a.askInOrder(all)
	}
	return err
}

// front admits the first jobs in order of a queue without groups, merged with those in all. It
// skips jobs that are too heavy, but no further than scanDepth. Jobs without weight have a lane of
// their own, so that a full limit does not hide them.
func (a *admission) front(all []gateCandidate, full bool) error {
	for _, far := range []int{a.r.Max, a.r.Max + scanDepth} {
		if full || len(a.admit) >= a.r.Max || far > a.r.Max && !a.refused {
			break
		}
		more, err := a.source.Front(far)
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
	slices.SortStableFunc(a.admit, func(a, b gateCandidate) int { return less(a.candidate, b.candidate) })
	return nil
}

// opensBy makes an empty claim try again at that time, at the latest.
func (a *admission) opensBy(us int64) {
	if a.opens == 0 || us < a.opens {
		a.opens = us
	}
}

// run asks the gates about the candidates of the queue.
func (a *admission) run() error {
	g, full := a.flow.Closed(), a.row.Limit > 0 && (a.flow.Used >= a.row.Limit || a.flow.State.Counting)
	apart := !g.Open || full || rules.Grouped(a.row.QueueSettings) || a.flow.HeadFirst() // else these jobs are at the head of the line anyhow
	going, err := a.source.Going(apart)
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
	if h := a.head; a.flow.HeadFirst() && slices.Contains(a.r.Kinds, h.kind) {
		a.ask(&h)
	}
	if rules.Grouped(a.row.QueueSettings) {
		return a.takeTurns()
	}
	return a.front(going, full)
}

// gateCandidate is a candidate of a queue with gates.
type gateCandidate struct {
	candidate
	kind, lane string
	purpose    sojourn.Purpose
}

func (e *gateCandidate) asks() *throttle.Candidate {
	return &throttle.Candidate{ID: sojourn.ID(e.id), Kind: e.kind, Group: groupOf(e.lane), Weight: int32(e.weight), Purpose: e.purpose}
}

// move is a candidate that a gate has put off or failed.
type move struct {
	id    int64
	later time.Time
	fail  string
}

// newAdmission is an admission that has not asked about any job.
func newAdmission(q *queueGates, s source, r driver.ClaimRequest) *admission {
	return &admission{queueGates: q, source: s, r: r, asked: map[int64]bool{}, askedOf: map[string]int{}}
}

// sortCandidates sorts jobs by the order of their queue.
func sortCandidates(all []gateCandidate) {
	slices.SortFunc(all, func(a, b gateCandidate) int { return less(a.candidate, b.candidate) })
}

func (a *admission) noteAsked(e *gateCandidate) {
	a.asked[e.id] = true
	a.askedOf[e.lane]++
}

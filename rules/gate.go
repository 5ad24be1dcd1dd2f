package rules

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/throttle"
)

// Flow is a queue at one moment: everything that its gates look at. The gates are pure functions
// over it, so a claim and the answer to "why does this job not start" cannot differ. Not safe for
// concurrent use.
type Flow struct {
	Queue    string
	Now      time.Time             // by the store's clock
	Settings sojourn.QueueSettings // of the queue
	All      sojourn.QueueSettings // of AllQueues: only its pauses count
	State    FlowState             // state of the gates that persists between claims
	Used     int64                 // weight in flight: running, awaiting, resumed
	Groups   map[string]int64
	Borrow   bool // the groups that may use their own shares have had their turns

	GroupFullAt map[string]int64                               // the buckets of GroupRate that are not full, see Rate.Room
	Throttle    func(c *throttle.Candidate) throttle.Admission // asks the throttler; nil if the queue has none

	windows   *sojourn.Gate // decision of the windows of the queue
	others    *sojourn.Gate // Used and Of of the groups without a share of their own; nil until first needed
	overtaken bool          // another job has started since the head was refused
	met       bool          // this claim has seen the head
}

// Trouble counts the errors of a queue's throttler, on all nodes.
type Trouble struct {
	Count int64     `json:"count"` // failed answers so far
	Text  string    `json:"text"`  // of the last one
	At    time.Time `json:"at"`
}

// FlowState is the state of a queue's gates that persists between claims. The store keeps it beside
// the settings.
type FlowState struct {
	Pace     Pace       `json:"pace,omitzero"`
	Trouble  Trouble    `json:"trouble,omitzero"`
	Counting bool       `json:"counting,omitempty"` // the queue has got its first limit: its jobs in flight are being marked
	Turn     string     `json:"turn,omitempty"`     // the group that had the last turn, as the store writes it
	Head     sojourn.ID `json:"head,omitempty"`     // the first job refused because its weight did not fit, if it still waits
	Needs    int32      `json:"needs,omitempty"`    // its weight
	Met      time.Time  `json:"met,omitzero"`       // last claim that could have started it
	Since    time.Time  `json:"since,omitzero"`     // when another job was first started before it
	Overtook int        `json:"overtook,omitempty"` // claims that have started others since
}

// reserveClaims is how many claims may overtake the head for lack of weight before weight is kept
// for it.
const reserveClaims = 100

// gates in their order.
var gates = []struct {
	name string
	whom reach
	ask  func(f *Flow, c *throttle.Candidate) sojourn.Gate
}{
	{sojourn.GatePause, everyStep, (*Flow).pauseGate},
	{sojourn.GateWindow, startsOnly, (*Flow).windowGate},
	{sojourn.GateHold, startsAndPolls, (*Flow).holdGate},
	{sojourn.GateBreaker, startsAndPolls, (*Flow).breakerGate},
	{sojourn.GateLimit, startsOnly, (*Flow).limitGate},
	{sojourn.GateGroup, startsOnly, (*Flow).groupGate},
	{sojourn.GateShare, startsOnly, (*Flow).shareGate},
	{sojourn.GateRate, startsAndPolls, (*Flow).rateGate},
	{sojourn.GateThrottle, startsOnly, (*Flow).throttleGate},
}

// Whom a closed gate holds back, from narrow to wide: Gate.Scope. A claim need not ask again for
// each of them.
const (
	ScopeJob   = "job"   // this job
	ScopeGroup = "group" // all jobs of its group that would count
	ScopeKind  = "kind"  // all jobs of its kind
	ScopeQueue = "queue" // all jobs of its queue that would count
)

// reach says which steps a gate holds back. Only a pause holds back steps that resume or decide; a
// poll calls the outside, as a start does.
type reach uint8

const (
	startsOnly reach = iota
	startsAndPolls
	everyStep
)

func (r reach) covers(p sojourn.Purpose) bool {
	return r == everyStep || p <= sojourn.PurposeStart || r == startsAndPolls && p == sojourn.PurposePoll
}

// Ask returns the first gate that holds c back, or an open one.
func (f *Flow) Ask(c *throttle.Candidate) sojourn.Gate {
	f.met = f.met || c.ID == f.State.Head
	for i := range gates {
		if g := f.ask(i, c); !g.Open {
			return g
		}
	}
	return sojourn.Gate{Open: true}
}

// Gates returns the decision of every gate about c, in order.
func (f *Flow) Gates(c *throttle.Candidate) []sojourn.Gate {
	all := make([]sojourn.Gate, len(gates))
	for i := range gates {
		all[i] = f.ask(i, c)
	}
	return all
}

func (f *Flow) ask(i int, c *throttle.Candidate) sojourn.Gate {
	g := sojourn.Gate{Name: gates[i].name, Open: true}
	if gates[i].whom.covers(c.Purpose) {
		g = gates[i].ask(f, c)
		g.Name = gates[i].name
	}
	if g.Scope == "" {
		g.Scope = ScopeJob
	}
	return g
}

// Start counts c as in flight.
func (f *Flow) Start(c *throttle.Candidate) {
	if startsAndPolls.covers(c.Purpose) {
		f.pace(c.Group, 1)
	}
	if c.Weight == 0 || c.Purpose > sojourn.PurposeStart {
		return // a started job holds its weight already
	}
	f.Used += int64(c.Weight)
	if f.Groups != nil {
		f.Groups[c.Group] += int64(c.Weight)
		f.land(c.Group, int64(c.Weight))
	}
	switch f.State.Head {
	case 0:
	case c.ID:
		f.State.Head, f.State.Needs, f.State.Since, f.State.Met, f.State.Overtook = 0, 0, time.Time{}, time.Time{}, 0
		f.overtaken, f.met = false, false
	default:
		f.overtaken = true
	}
}

// Refuse records that g has held c back. The first job held back only by the weight limit becomes
// the head, until it starts or is gone.
func (f *Flow) Refuse(c *throttle.Candidate, g sojourn.Gate) {
	if f.State.Head == 0 && g.Name == sojourn.GateLimit && f.groupGate(c).Open && f.shareGate(c).Open {
		f.State.Head, f.State.Needs, f.met = c.ID, c.Weight, true
	}
}

// Close ends a claim and returns the state of the gates for the next one. It drops a head that no
// other job has overtaken: that job only waits in line.
func (f *Flow) Close() FlowState {
	s := f.State
	if s.Head == 0 {
		return s
	}
	if f.overtaken {
		if s.Overtook == 0 {
			s.Since = f.Now
		}
		s.Overtook++
	} else if s.Overtook == 0 {
		s.Head, s.Needs = 0, 0
		return s
	}
	if f.met && f.Now.Sub(s.Met) > reserveAfter(f.Settings)/2 { // not each time: it is a write
		s.Met = f.Now
	}
	return s
}

// HeadFirst reports whether the head has been overtaken for long enough: then the claim considers
// it before all others, and reserves the weight that it needs.
func (f *Flow) HeadFirst() bool {
	s := f.State
	return s.Head > 0 && (s.Overtook >= reserveClaims || s.Overtook > 0 && f.Now.Sub(s.Since) >= reserveAfter(f.Settings))
}

// reserved is the weight that is reserved for the head. If no claim has seen the head for a while,
// it has no worker, and nothing is reserved.
func (f *Flow) reserved() int64 {
	if !f.HeadFirst() || !f.met && f.Now.Sub(f.State.Met) > 2*reserveAfter(f.Settings) {
		return 0
	}
	return int64(f.State.Needs)
}

// pauseGate: a paused queue, a paused kind, here or in all queues.
func (f *Flow) pauseGate(c *throttle.Candidate) sojourn.Gate {
	switch {
	case f.All.Paused:
		return sojourn.Gate{Scope: ScopeQueue, Text: "all queues are paused"}
	case f.Settings.Paused:
		return sojourn.Gate{Scope: ScopeQueue, Text: "the queue is paused"}
	case slices.Contains(f.All.PausedKinds, c.Kind):
		return sojourn.Gate{Scope: ScopeKind, Text: "the kind is paused in all queues"}
	case slices.Contains(f.Settings.PausedKinds, c.Kind):
		return sojourn.Gate{Scope: ScopeKind, Text: "the kind is paused in this queue"}
	}
	return sojourn.Gate{Open: true}
}

// windowGate: the windows of the queue and those of the job.
func (f *Flow) windowGate(c *throttle.Candidate) sojourn.Gate {
	if g := f.Closed(); !g.Open {
		return g
	}
	g := f.openWindows(c.Windows...)
	g.Scope, g.Text = ScopeJob, "the windows of the job are closed"
	if g.Open {
		return sojourn.Gate{Open: true}
	}
	return g
}

// Closed evaluates the windows of the queue, independently of a job.
func (f *Flow) Closed() sojourn.Gate {
	if f.windows == nil {
		g := f.openWindows(f.Settings.Windows)
		if g.Name = sojourn.GateWindow; !g.Open {
			g.Scope, g.Text = ScopeQueue, "the windows of the queue are closed"
		}
		f.windows = &g
	}
	return *f.windows
}

// openWindows is open if all of them are. Windows that do not open any more have no Until.
func (f *Flow) openWindows(all ...sojourn.Windows) sojourn.Gate {
	opens, err := NextOpening(f.Now, all...)
	switch {
	case err != nil:
		return sojourn.Gate{}
	case opens.After(f.Now):
		return sojourn.Gate{Until: opens}
	}
	return sojourn.Gate{Open: true}
}

// holdGate: an operator or the other side has told the queue to wait; after that starts come on a
// ramp.
func (f *Flow) holdGate(*throttle.Candidate) sojourn.Gate {
	p, now := f.State.Pace, f.Now.UnixMicro()
	starts, next := p.HoldRoom(now)
	g := sojourn.Gate{Open: starts > 0, Scope: ScopeQueue}
	switch {
	case g.Open:
	case now < p.HoldUntil:
		g.Text = "the queue is on hold"
		if p.HoldReason != "" {
			g.Text += ": " + p.HoldReason
		}
	default:
		g.Used, g.Of, g.Text = p.RampStarts, p.RampStarts, "after a hold the queue starts on a ramp"
	}
	return until(g, next)
}

// breakerGate closes after many failures: the service that the jobs call seems to be down.
func (f *Flow) breakerGate(*throttle.Candidate) sojourn.Gate {
	starts, next := f.State.Pace.BreakerRoom(f.Settings.Breaker, f.Now.UnixMicro())
	g := sojourn.Gate{Open: starts > 0, Scope: ScopeQueue}
	if b := filled(f.Settings.Breaker); !g.Open && f.State.Pace.Mode == sojourn.BreakerProbes {
		g.Used, g.Of, g.Text = int64(f.State.Pace.Probes), int64(b.Probes), "the breaker waits for its probes"
	} else if !g.Open {
		g.Text = "the breaker is open: too many failures"
	}
	return until(g, next)
}

// rateGate: the queue's bucket, then the group's. Used and Of are starts of the fuller one's burst.
func (f *Flow) rateGate(c *throttle.Candidate) sojourn.Gate {
	g := f.bucket(f.Settings.Rate, f.State.Pace.RateFullAt)
	g.Scope = ScopeQueue
	if !g.Open || f.Settings.GroupRate == nil || c.Group == "" {
		return g
	}
	g = f.bucket(f.Settings.GroupRate, f.GroupFullAt[c.Group])
	g.Scope = ScopeGroup
	return g
}

// GroupOpen asks the gates of a group for the lightest job that counts.
func (f *Flow) GroupOpen(group string) bool {
	c := &throttle.Candidate{Group: group, Weight: 1}
	rate := f.rateGate(c)
	return f.groupGate(c).Open && f.shareGate(c).Open && (rate.Open || rate.Scope != ScopeGroup)
}

func (f *Flow) bucket(r *sojourn.Rate, fullAt int64) sojourn.Gate {
	if r == nil {
		return sojourn.Gate{Open: true}
	}
	starts, next := RateRoom(r, fullAt, f.Now.UnixNano())
	g := sojourn.Gate{Open: starts > 0, Used: rateBurst(r) - starts, Of: rateBurst(r)}
	if !g.Open {
		g.Text = fmt.Sprintf("the rate of %d per %v is used up", r.Count, r.Per)
	}
	return until(g, (next+999)/1000)
}

// until sets when a closed gate opens, in microseconds.
func until(g sojourn.Gate, us int64) sojourn.Gate {
	if !g.Open && us > 0 {
		g.Until = time.UnixMicro(us).UTC()
	}
	return g
}

// throttleGate asks the throttler.
func (f *Flow) throttleGate(c *throttle.Candidate) sojourn.Gate {
	if f.Throttle == nil {
		return sojourn.Gate{Open: true}
	}
	a := f.Throttle(c)
	g := sojourn.Gate{Open: a.Start, Text: a.Text, Fail: a.Fail, Later: a.NotBefore}
	switch {
	case a.Start:
		g.Text = ""
	case a.Fail != "":
		g.Text = "the throttler fails it: " + a.Fail
	case !a.NotBefore.IsZero():
		g.Until = a.NotBefore
		g.Text = cmp.Or(a.Text, "the throttler has put it off")
	case a.Text == "":
		g.Text = "the throttler has not let it through"
	}
	return g
}

// pace counts steps that call outside.
func (f *Flow) pace(group string, starts int64) {
	s := f.Settings
	f.State.Pace = f.State.Pace.Started(s.Rate, s.Breaker, starts, f.Now.UnixMicro())
	if s.GroupRate != nil && group != "" {
		if f.GroupFullAt == nil {
			f.GroupFullAt = map[string]int64{}
		}
		f.GroupFullAt[group] = RateTake(s.GroupRate, f.GroupFullAt[group], f.Now.UnixNano(), starts)
	}
}

// limitGate: the summed weight in flight stays within the limit. A job heavier than the limit runs
// alone.
func (f *Flow) limitGate(c *throttle.Candidate) sojourn.Gate {
	limit, weight := f.Settings.Limit, int64(c.Weight)
	g := sojourn.Gate{Open: true, Used: f.Used, Of: max(limit, 0)}
	if limit < 1 || weight == 0 {
		return g
	}
	g.Open = f.Used+weight <= limit || f.Used == 0
	if f.State.Counting {
		return sojourn.Gate{Scope: ScopeQueue, Of: limit, Text: "the limit is new: what is in flight is being counted"}
	}
	if !g.Open {
		g.Text = "not enough of the limit is free"
		if f.Used >= limit {
			g.Scope, g.Text = ScopeQueue, "the limit is used up"
		}
		return g
	}
	if kept := f.reserved(); kept > 0 && c.ID != f.State.Head && f.Used+weight+kept > limit {
		g.Open, g.Text = false, "what is free is kept for a heavier job that was overtaken too often"
	}
	return g
}

// groupGate: the summed weight in flight of one group. Jobs without a group are not held back.
func (f *Flow) groupGate(c *throttle.Candidate) sojourn.Gate {
	limit, used := f.Settings.GroupLimit, f.Groups[c.Group]
	g := sojourn.Gate{Open: true, Scope: ScopeGroup, Used: used, Of: max(limit, 0)}
	if limit < 1 || c.Weight == 0 || c.Group == "" {
		return g
	}
	if g.Open = used == 0 || used+int64(c.Weight) <= limit; !g.Open {
		g.Text = "the group is at its limit"
	}
	return g
}

// shareGate checks a group's part of the limit. With Borrow it may use idle shares of others too.
func (f *Flow) shareGate(c *throttle.Candidate) sojourn.Gate {
	if len(f.Settings.Shares) == 0 || f.Settings.Limit < 1 || c.Weight == 0 {
		return sojourn.Gate{Open: true}
	}
	g := sojourn.Gate{Scope: ScopeGroup}
	if _, named := f.Settings.Shares[c.Group]; named {
		g.Used, g.Of = f.Groups[c.Group], ShareOf(f.Settings, c.Group)
	} else {
		g.Used, g.Of = f.unnamed().Used, f.others.Of
	}
	g.Open = g.Of > 0 && g.Used == 0 || g.Used+int64(c.Weight) <= g.Of || f.Borrow
	if !g.Open {
		g.Text = "the share of the group is used up"
	}
	return g
}

// unnamed sums the weight in flight of the groups without a share of their own. The sum is cached:
// there may be thousands of groups, and shareGate needs it for each.
func (f *Flow) unnamed() *sojourn.Gate {
	if f.others == nil {
		f.others = &sojourn.Gate{Of: restOfLimit(f.Settings)}
		for group, n := range f.Groups {
			f.land(group, n)
		}
	}
	return f.others
}

// land adds to the weight in flight of the groups without a share of their own.
func (f *Flow) land(group string, weight int64) {
	if _, named := f.Settings.Shares[group]; !named && f.others != nil {
		f.others.Used += weight
	}
}

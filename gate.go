package sojourn

import (
	"slices"
	"time"
)

// The gates, in the order in which a claim asks them. The first one that is closed holds a job back.
const (
	GatePause    = "pause"
	GateWindow   = "window"
	GateHold     = "hold"
	GateLimit    = "limit"
	GateGroup    = "group_limit"
	GateShare    = "share"
	GateRate     = "rate"
	GateThrottle = "throttle"
)

// Scope says whom a closed gate holds back, so that a claim need not ask again for each of them.
type Scope uint8

// The scopes, from narrow to wide.
const (
	ScopeJob   Scope = iota // this job
	ScopeGroup              // all jobs of its group that would count
	ScopeKind               // all jobs of its kind
	ScopeQueue              // all jobs of its queue that would count
)

var scopeNames = []string{"job", "group", "kind", "queue"}

// MarshalText gives the scope's name.
func (s Scope) MarshalText() ([]byte, error) { return []byte(scopeNames[s]), nil }

// Gate is what one gate says about one job.
type Gate struct {
	Name  string    `json:"gate"` // one of the Gate constants
	Open  bool      `json:"open"`
	Scope Scope     `json:"scope"`          // of a closed gate
	Used  int64     `json:"used,omitempty"` // weight, starts or jobs, of gates that count
	Of    int64     `json:"of,omitempty"`   // how much there is
	Until time.Time `json:"until,omitzero"` // when a closed gate opens, if that is known
	Text  string    `json:"text,omitempty"` // why it is closed, in words
}

// Candidate is a ready job that would start now, as the gates see it.
type Candidate struct {
	ID      ID
	Kind    string
	Group   string
	Weight  int32
	Purpose Purpose   // PurposeStart unless the job goes on: what goes on is held back by a pause only
	Windows []Windows // of its policy; a claim leaves them out, and puts the job off when it is to start: S2
}

// Flow is a queue at one moment: everything that its gates look at. The gates are pure functions over it, so a claim and the answer to
// "why does this job not start" cannot differ. Not safe for concurrent use.
type Flow struct {
	Queue    string
	Now      time.Time     // by the store's clock
	Settings QueueSettings // of the queue
	All      QueueSettings // of AllQueues: only its pauses count
	State    FlowState     // what the gates remember from claim to claim
	Used     int64         // weight in flight: running, awaiting, resumed
	Groups   map[string]int64
	Borrow   bool // the groups that may use their own shares have had their turns

	windows   *Gate // what the windows of the queue say
	overtaken bool  // somebody has started since the head was refused
	met       bool  // this claim has come by the head
}

// FlowState is what the gates of a queue remember from claim to claim. The store keeps it beside the settings.
type FlowState struct {
	Counting bool      `json:"counting,omitempty"` // the queue has got its first limit: what is in flight is being marked
	Turn     string    `json:"turn,omitempty"`     // the group that had the last turn, as the store writes it
	Head     ID        `json:"head,omitempty"`     // the first job that was refused for lack of weight, and is still waiting
	Needs    int32     `json:"needs,omitempty"`    // its weight
	Met      time.Time `json:"met,omitzero"`       // when a claim last came by that could have started it
	Since    time.Time `json:"since,omitzero"`     // when it was first overtaken
	Overtook int       `json:"overtook,omitempty"` // claims that have started others since
}

// reserveClaims is how many claims may overtake the head for lack of weight before weight is kept for it.
const reserveClaims = 100

// gates in their order.
var gates = []struct {
	name string
	ask  func(f *Flow, c *Candidate) Gate
}{
	{GatePause, (*Flow).pauseGate},
	{GateWindow, (*Flow).windowGate},
	{GateHold, (*Flow).holdGate},
	{GateLimit, (*Flow).limitGate},
	{GateGroup, (*Flow).groupGate},
	{GateShare, (*Flow).shareGate},
}

// Ask returns the first gate that holds c back, or an open one.
func (f *Flow) Ask(c *Candidate) Gate {
	f.met = f.met || c.ID == f.State.Head
	for i := range gates {
		if g := f.ask(i, c); !g.Open {
			return g
		}
	}
	return Gate{Open: true}
}

// Gates returns what every gate says about c, in order.
func (f *Flow) Gates(c *Candidate) []Gate {
	all := make([]Gate, len(gates))
	for i := range gates {
		all[i] = f.ask(i, c)
	}
	return all
}

func (f *Flow) ask(i int, c *Candidate) Gate {
	g := Gate{Name: gates[i].name, Open: true}
	if gates[i].name == GatePause || c.Purpose <= PurposeStart {
		g = gates[i].ask(f, c)
		g.Name = gates[i].name
	}
	return g
}

// Start counts c as in flight.
func (f *Flow) Start(c *Candidate) {
	if c.Weight == 0 || c.Purpose > PurposeStart {
		return // what goes on holds its weight already
	}
	f.Used += int64(c.Weight)
	if f.Groups != nil {
		f.Groups[c.Group] += int64(c.Weight)
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

// Refuse notes that g has held c back. The first job that lacks nothing but weight becomes the head, and stays it until it starts or is gone.
func (f *Flow) Refuse(c *Candidate, g Gate) {
	if f.State.Head == 0 && g.Name == GateLimit && f.groupGate(c).Open && f.shareGate(c).Open {
		f.State.Head, f.State.Needs, f.met = c.ID, c.Weight, true
	}
}

// Close ends a claim: it returns what the gates are to remember. A head that nobody has overtaken is forgotten, it only waits in line.
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
	if f.met && f.Now.Sub(s.Met) > f.Settings.reserveAfter()/2 { // not each time: it is a write
		s.Met = f.Now
	}
	return s
}

// HeadFirst reports whether the head has been overtaken long enough: it is asked before all others, and nobody else gets the weight that it needs.
func (f *Flow) HeadFirst() bool {
	s := f.State
	return s.Head > 0 && (s.Overtook >= reserveClaims || s.Overtook > 0 && f.Now.Sub(s.Since) >= f.Settings.reserveAfter())
}

// reserved is the weight that is kept for the head. A head that no claim has come by for a while has no worker, and keeps nothing.
func (f *Flow) reserved() int64 {
	if !f.HeadFirst() || !f.met && f.Now.Sub(f.State.Met) > 2*f.Settings.reserveAfter() {
		return 0
	}
	return int64(f.State.Needs)
}

// pauseGate: a paused queue, a paused kind, here or in all queues.
func (f *Flow) pauseGate(c *Candidate) Gate {
	switch {
	case f.All.Paused:
		return Gate{Scope: ScopeQueue, Text: "all queues are paused"}
	case f.Settings.Paused:
		return Gate{Scope: ScopeQueue, Text: "the queue is paused"}
	case slices.Contains(f.All.PausedKinds, c.Kind):
		return Gate{Scope: ScopeKind, Text: "the kind is paused in all queues"}
	case slices.Contains(f.Settings.PausedKinds, c.Kind):
		return Gate{Scope: ScopeKind, Text: "the kind is paused in this queue"}
	}
	return Gate{Open: true}
}

// windowGate: the windows of the queue and those of the job.
func (f *Flow) windowGate(c *Candidate) Gate {
	if g := f.Closed(); !g.Open {
		return g
	}
	g := f.openWindows(c.Windows...)
	g.Scope, g.Text = ScopeJob, "the windows of the job are closed"
	if g.Open {
		return Gate{Open: true}
	}
	return g
}

// Closed says whether the windows of the queue are open, whatever job asks.
func (f *Flow) Closed() Gate {
	if f.windows == nil {
		g := f.openWindows(f.Settings.Windows)
		if g.Name = GateWindow; !g.Open {
			g.Scope, g.Text = ScopeQueue, "the windows of the queue are closed"
		}
		f.windows = &g
	}
	return *f.windows
}

// openWindows is open if all of them are. Windows that do not open any more have no Until.
func (f *Flow) openWindows(all ...Windows) Gate {
	opens, err := NextOpening(f.Now, all...)
	switch {
	case err != nil:
		return Gate{}
	case opens.After(f.Now):
		return Gate{Until: opens}
	}
	return Gate{Open: true}
}

// holdGate: an operator has told the queue to wait.
func (f *Flow) holdGate(*Candidate) Gate {
	if until := f.Settings.HoldUntil; until.After(f.Now) {
		return Gate{Scope: ScopeQueue, Until: until, Text: "the queue is on hold"}
	}
	return Gate{Open: true}
}

// limitGate: the summed weight in flight stays within the limit. A job heavier than the limit runs alone.
func (f *Flow) limitGate(c *Candidate) Gate {
	limit, weight := f.Settings.Limit, int64(c.Weight)
	g := Gate{Open: true, Used: f.Used, Of: max(limit, 0)}
	if limit < 1 || weight == 0 {
		return g
	}
	g.Open = f.Used+weight <= limit || f.Used == 0
	if f.State.Counting {
		return Gate{Scope: ScopeQueue, Of: limit, Text: "the limit is new: what is in flight is being counted"}
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
func (f *Flow) groupGate(c *Candidate) Gate {
	limit, used := f.Settings.GroupLimit, f.Groups[c.Group]
	g := Gate{Open: true, Scope: ScopeGroup, Used: used, Of: max(limit, 0)}
	if limit < 1 || c.Weight == 0 || c.Group == "" {
		return g
	}
	if g.Open = used == 0 || used+int64(c.Weight) <= limit; !g.Open {
		g.Text = "the group is at its limit"
	}
	return g
}

// shareGate: a group's part of the limit. With Borrow what others leave idle may be used too.
func (f *Flow) shareGate(c *Candidate) Gate {
	if len(f.Settings.Shares) == 0 || f.Settings.Limit < 1 || c.Weight == 0 {
		return Gate{Open: true}
	}
	used, of := f.Groups[c.Group], f.Settings.ShareOf(c.Group)
	if _, named := f.Settings.Shares[c.Group]; !named {
		used = 0
		for group, n := range f.Groups {
			if _, named := f.Settings.Shares[group]; !named {
				used += n
			}
		}
	}
	g := Gate{Scope: ScopeGroup, Used: used, Of: of}
	g.Open = of > 0 && used == 0 || used+int64(c.Weight) <= of || f.Borrow
	if !g.Open {
		g.Text = "the share of the group is used up"
	}
	return g
}

package throttle

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Candidate is a ready job that would start now, as the gates see it.
type Candidate struct {
	ID      sojourn.ID
	Kind    string
	Group   string
	Weight  int32
	Purpose sojourn.Purpose   // PurposeStart, or the purpose of a started job, which only a pause holds back
	Windows []sojourn.Windows // of its policy; a claim leaves them out, and puts the job off when it is to start

	// Only throttlers read these fields; they are empty for the other gates.
	Key       string
	Priority  int32
	Attempt   int32 // that would begin, or go on
	Tags      []string
	Meta      map[string]string
	RunAt     time.Time
	CreatedAt time.Time
}

// Throttler decides which candidates of a queue may start, after all other gates have let them
// through. It runs inside the claim's transaction, once per candidate, one after the other: it must
// be quick, must not call the store, and may be called from several goroutines.
//
// An error, a panic and an answer that takes longer than MaxThrottle close the gate for the rest of
// that pass; they are counted and shown in the queue's status and by why.
type Throttler interface {
	// Throttle decides whether c starts. Do not change or keep c or f. ctx ends with the time
	// budget.
	Throttle(ctx context.Context, c *Candidate, f *Flight) (Admission, error)
}

// ThrottlerFunc is a function that implements Throttler.
type ThrottlerFunc func(ctx context.Context, c *Candidate, f *Flight) (Admission, error)

// Throttle calls the function.
func (f ThrottlerFunc) Throttle(ctx context.Context, c *Candidate, in *Flight) (Admission, error) {
	return f(ctx, c, in)
}

// Load is a number of jobs and their summed weight.
type Load struct {
	Jobs   int64 `json:"jobs"`
	Weight int64 `json:"weight"`
}

// Flight is the load in flight in a queue, including the jobs that the current claim has started.
// Resumed jobs count as Ready.
type Flight struct {
	Now   time.Time // by the store's clock
	Limit int64     // of the queue; 0 = none
	Loads []FlightLoad
	List  []FlightJob // of them, at most MaxFlight, in no order

	at map[FlightLoad]int // the place of a load in Loads, for Count
}

// FlightLoad is the load of one kind, group and state.
type FlightLoad struct {
	Kind, Group string
	State       sojourn.State // Running, Awaiting, or Ready for resumed
	Load
}

// FlightJob is one job in flight.
type FlightJob struct {
	ID          sojourn.ID
	Kind, Group string
	State       sojourn.State
	Weight      int32
	Priority    int32
}

// Sum adds the loads for which match returns true.
func (f *Flight) Sum(match func(FlightLoad) bool) (sum Load) {
	for _, l := range f.Loads {
		if match(l) {
			sum.Jobs += l.Jobs
			sum.Weight += l.Weight
		}
	}
	return sum
}

// Count adds to the loads.
func (f *Flight) Count(kind, group string, state sojourn.State, n Load) {
	at := FlightLoad{Kind: kind, Group: group, State: state}
	i, ok := f.at[at]
	if !ok {
		if f.at == nil {
			f.at = map[FlightLoad]int{}
		}
		i = len(f.Loads)
		f.at[at] = i
		f.Loads = append(f.Loads, FlightLoad{Kind: kind, Group: group, State: state})
	}
	f.Loads[i].Jobs += n.Jobs
	f.Loads[i].Weight += n.Weight
}

// Add counts a candidate that starts.
func (f *Flight) Add(c *Candidate) {
	f.Count(c.Kind, c.Group, sojourn.Running, Load{1, int64(c.Weight)})
	if len(f.List) < sojourn.MaxFlight {
		f.List = append(f.List, FlightJob{ID: c.ID, Kind: c.Kind, Group: c.Group, State: sojourn.Running, Weight: c.Weight, Priority: c.Priority})
	}
}

// Admission is a throttler's answer about one candidate. The zero value is "not now".
type Admission struct {
	Start     bool
	NotBefore time.Time // of one that does not start: scheduled to then, at most MaxHorizon ahead; counts as no attempt
	Fail      string    // of one that does not start: it fails at once with this reason
	Text      string    // of "not now" and "not before": the text that why shows
}

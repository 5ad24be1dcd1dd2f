// Package retry tries a retry policy on jobs that have failed: what would it have done with them?
// It only reads.
package retry

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/failure"
)

// Limits and defaults of a query.
const (
	DefaultSince  = 24 * time.Hour
	DefaultGroups = 100
	DefaultJobs   = 100
	MaxGroups     = 1000            // the maximum of Query.Groups
	MaxJobs       = sojourn.MaxFind // the maximum of Query.Jobs
)

// Query chooses failed jobs, and the policy to try on them. Everything that is set must match.
type Query struct {
	Queue   string
	Kind    string
	Reason  string
	Failure string // the id of one failure group
	// Since is the earliest end of a job that is looked at; zero = DefaultSince before the store's
	// clock.
	Since time.Time
	// Policy changes the policy of each job. It takes MaxAttempts, MaxCrashes, Backoff, OnLost and
	// OnPanic; a zero field leaves that of the job.
	Policy sojourn.Policy
	Groups int // failure groups to look at, those with the latest failures first: 1 to MaxGroups, 0 = DefaultGroups
	Jobs   int // failed jobs to look at in each group, the newest first: 1 to MaxJobs, 0 = DefaultJobs
}

// Validate checks the ranges. The error has CodeInvalid.
func (q Query) Validate() error {
	switch {
	case q.Groups < 0 || q.Groups > MaxGroups:
		return sojourn.Invalid("groups", "%d is out of range: 1 to %d, or 0 for %d", q.Groups, MaxGroups, DefaultGroups)
	case q.Jobs < 0 || q.Jobs > MaxJobs:
		return sojourn.Invalid("jobs", "%d is out of range: 1 to %d, or 0 for %d", q.Jobs, MaxJobs, DefaultJobs)
	}
	rest := q.Policy
	rest.MaxAttempts, rest.MaxCrashes, rest.Backoff, rest.OnLost, rest.OnPanic = 0, 0, sojourn.Backoff{}, 0, 0
	if !reflect.ValueOf(rest).IsZero() {
		return sojourn.Invalid("policy", "only max_attempts, max_crashes, backoff, on_lost and on_panic can be tried: leave the others out")
	}
	if reflect.ValueOf(q.Policy).IsZero() {
		return sojourn.Invalid("policy", "there is nothing to try: set max_attempts, max_crashes, backoff, on_lost or on_panic")
	}
	return sojourn.Edit{Action: sojourn.EditChange, Policy: &q.Policy}.Validate(0)
}

// Counts are the results of jobs.
type Counts struct {
	Jobs    int `json:"jobs"`    // looked at
	Retried int `json:"retried"` // would have been retried after their last failure
	Same    int `json:"same"`    // would have failed at the same attempt
	Earlier int `json:"earlier"` // would have failed at an earlier attempt
	Other   int `json:"other"`   // were ended by something that asks no policy, such as Abort
	// Extra is the number of further attempts that the policy would have allowed, of the jobs with
	// a limit. Unlimited are those without one.
	Extra     int64 `json:"extra"`
	Unlimited int   `json:"unlimited,omitempty"`
	Saved     int64 `json:"saved"` // failures that would not have happened
	// MinDelay and MaxDelay are the shortest and the longest wait before the first further attempt
	// of a retried job.
	MinDelay time.Duration `json:"min_delay,omitempty"`
	MaxDelay time.Duration `json:"max_delay,omitempty"`
}

// Add counts a job.
func (c *Counts) Add(t Trial) {
	c.Jobs++
	c.Saved += t.Saved
	switch t.Result {
	case Same:
		c.Same++
	case Earlier:
		c.Earlier++
	case Other:
		c.Other++
	case Retried:
		d := t.Delays[0]
		if c.Retried++; c.Retried == 1 || d < c.MinDelay {
			c.MinDelay = d
		}
		c.MaxDelay = max(c.MaxDelay, d)
		if t.Extra < 0 {
			c.Unlimited++
		} else {
			c.Extra += t.Extra
		}
	}
}

// Group has the results of the failed jobs of a failure group.
type Group struct {
	Failure string `json:"failure"`
	Queue   string `json:"queue"`
	Kind    string `json:"kind"`
	Reason  string `json:"reason,omitempty"`
	Pattern string `json:"pattern,omitempty"` // see failure.Group
	Other   bool   `json:"other_causes,omitempty"`
	Counts
	More   bool    `json:"more,omitempty"` // it has further jobs, which were not looked at
	Trials []Trial `json:"trials,omitempty"`
}

// Report is the result of a query.
type Report struct {
	Since      time.Time `json:"since"`  // the earliest end of the jobs looked at
	Groups     []Group   `json:"groups"` // those with jobs that ended since then
	Total      Counts    `json:"total"`
	MoreGroups bool      `json:"more_groups,omitempty"` // there may be further groups, which were not looked at
}

// Test tries a policy on failed jobs, group by group. It reads at most q.Groups groups, of each at
// most q.Jobs jobs, page by page, and their histories. So the report is no single snapshot. It
// leaves out jobs that were redriven, and jobs that the access token may not read.
func Test(ctx context.Context, c *sojourn.Client, q Query) (Report, error) {
	if err := q.Validate(); err != nil {
		return Report{}, err
	}
	if q.Since.IsZero() {
		status, err := c.Store().Status(ctx)
		if err != nil {
			return Report{}, err
		}
		q.Since = status.Now.Add(-DefaultSince)
	}
	q.Groups, q.Jobs = cmp.Or(q.Groups, DefaultGroups), cmp.Or(q.Jobs, DefaultJobs)
	out := Report{Since: q.Since, Groups: []Group{}}
	search := failure.Query{ID: q.Failure, Queue: q.Queue, Kind: q.Kind, Reason: q.Reason, Open: true, Muted: true}
	seen := 0
	for g, err := range failure.Of(c).All(ctx, search) {
		if err != nil {
			return out, err
		}
		if g.LastAt.Before(q.Since) { // so are all groups after it
			break
		}
		if seen++; seen > q.Groups {
			out.MoreGroups = true
			break
		}
		tried, err := tryGroup(ctx, c, g, q)
		if err != nil {
			return out, err
		}
		if len(tried.Trials) == 0 {
			continue
		}
		for _, t := range tried.Trials {
			tried.Add(t)
			out.Total.Add(t)
		}
		out.Groups = append(out.Groups, tried)
	}
	return out, nil
}

// tryGroup tries a policy on the jobs of a failure group.
func tryGroup(ctx context.Context, c *sojourn.Client, g failure.Group, q Query) (Group, error) {
	out := Group{Failure: g.ID, Queue: g.Queue, Kind: g.Kind, Reason: g.Reason, Pattern: g.Pattern, Other: g.Other}
	after := q.Since.Add(-time.Microsecond) // the filter leaves out its own time
	page, err := c.Jobs().List(ctx, sojourn.Filter{Failure: g.ID, States: []sojourn.State{sojourn.Failed},
		EndedAfter: after, Newest: true, Limit: q.Jobs})
	if err != nil {
		return out, err
	}
	out.More = page.Next != ""
	for _, j := range page.Items {
		history, err := c.Jobs().History(ctx, j.ID)
		if errors.Is(err, sojourn.ErrNotFound) { // purged meanwhile
			continue
		}
		if err != nil {
			return out, err
		}
		out.Trials = append(out.Trials, Replay(j, history, q.Policy))
	}
	return out, nil
}

// Package failure groups the failures of jobs by their cause: the queue, the kind, the reason, and
// the error text without the parts that differ from job to job (numbers, ids, UUIDs, quoted
// strings, addresses, paths). So 100,000 failed jobs of 20 causes are 20 groups.
//
// Groups are counted in the transaction that records the failure. Package operation redrives or
// cancels the jobs of a group.
package failure

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
)

const (
	// MaxGroups is the number of groups of one queue. Failures with further causes are counted in
	// one group of the queue and kind, with Group.Other.
	MaxGroups = 1000
	// Keep is how long a group is kept after its last failure. A group with failed jobs stays.
	Keep = 30 * 24 * time.Hour
	// MaxSample is the length in bytes at which Group.Error is cut.
	MaxSample = 4096
	// MaxOpen is the number up to which lists count the open jobs of a group.
	MaxOpen = 10_000
)

// Group is a group of failures.
type Group struct {
	ID       string `json:"id"` // 16 hexadecimal digits; the same cause always has the same id
	Queue    string `json:"queue"`
	Kind     string `json:"kind"`
	Reason   string `json:"reason,omitempty"`
	Pattern  string `json:"pattern,omitempty"`  // the error text with masks; empty if failures have no text
	Attempts int64  `json:"attempts"`           // failed attempts, each retry counts
	Failed   int64  `json:"failed"`             // how often a job has ended as failed
	Open     int64  `json:"open"`               // failed jobs that are still failed: neither redriven nor deleted. In lists at most MaxOpen
	Retrying int64  `json:"retrying,omitempty"` // live jobs whose last step failed with this cause. Only of Get
	// FirstAt and LastAt are the times of the first and the last failure, by the store's clock.
	FirstAt time.Time  `json:"first_at"`
	LastAt  time.Time  `json:"last_at"`
	Job     sojourn.ID `json:"job"`             // a job with this cause, one of the last
	Error   string     `json:"error,omitempty"` // its error text, cut at MaxSample
	// ErrorDetail is the JSON that came with the last error of this cause of Job. Only of Get.
	ErrorDetail []byte `json:"error_detail,omitempty"`
	Other       bool   `json:"other,omitempty"` // failures of all causes beyond MaxGroups
	// A muted group is left out of lists. It counts on.
	MutedUntil time.Time `json:"muted_until,omitzero"` // of a mute with an end
	Muted      bool      `json:"muted,omitempty"`
	MutedBy    string    `json:"muted_by,omitempty"`
	MuteReason string    `json:"mute_reason,omitempty"`
}

// Query chooses groups. Everything that is set must match.
type Query struct {
	ID     string // one group, with exact counts
	Queue  string
	Kind   string
	Reason string
	Open   bool   // only groups with open jobs
	Muted  bool   // also muted groups
	After  string // the cursor of the last group of the page before, see Cursor
	Limit  int    // 1 to sojourn.MaxFind, 0 = 100
}

// Cursor is the Query.After for the page that follows g.
func (g Group) Cursor() string { return strconv.FormatInt(g.LastAt.UnixMicro(), 10) + "-" + g.ID }

// ParseID reads the id of a group. The error has CodeInvalid.
func ParseID(id string) (int64, error) {
	n, err := strconv.ParseInt(id, 16, 64)
	if err != nil || len(id) != 16 || n < 1 {
		return 0, sojourn.Invalid("failure", "%.64q is not the id of a failure group: it has 16 hexadecimal digits", id)
	}
	return n, nil
}

// Mute is a change of the mute of a group.
type Mute struct {
	Off    bool          `json:"off,omitempty"` // end it
	For    time.Duration `json:"for,omitempty"` // 0 = until Off; at most sojourn.MaxHorizon
	By     string        `json:"by,omitempty"`
	Reason string        `json:"reason,omitempty"`
}

// Validate checks the ranges.
func (m Mute) Validate() error {
	if m.For < 0 || m.For > sojourn.MaxHorizon {
		return sojourn.Invalid("for", "%v is out of range: 0 (no end) to 10 years", m.For)
	}
	return nil
}

// Store is an optional ability of a sojourn.Store: it groups failures. All methods are safe for
// concurrent use. On behalf of an access token they see only groups of queues and kinds that it may
// read.
type Store interface {
	// Failures lists groups, those with the latest failures first. ErrNotFound if q.ID names none.
	Failures(ctx context.Context, q Query) ([]Group, error)
	// MuteFailure mutes a group or ends its mute, and returns it.
	MuteFailure(ctx context.Context, id string, m Mute) (Group, error)
}

// Failures are the calls about failure groups of a client. Safe for concurrent use.
type Failures struct{ store Store }

// Of returns the calls about failure groups of a client. If its store has none, each call returns
// an error with CodeInvalid. The stores of this module have them.
func Of(c *sojourn.Client) Failures { return Failures{StoreOf(c.Store())} }

// StoreOf is a store's ability to group failures. If it has none, each call returns an error.
func StoreOf(s sojourn.Store) Store {
	if groups, ok := s.(Store); ok {
		return groups
	}
	return none{}
}

// List returns a page of groups, those with the latest failures first.
func (f Failures) List(ctx context.Context, q Query) ([]Group, error) {
	return f.store.Failures(ctx, q)
}

// Get returns one group with exact counts. ErrNotFound if there is none.
func (f Failures) Get(ctx context.Context, id string) (Group, error) {
	found, err := f.store.Failures(ctx, Query{ID: id})
	if err != nil {
		return Group{}, err
	}
	if len(found) == 0 {
		return Group{}, sojourn.NotFound("there is no failure group %.64q", id)
	}
	return found[0], nil
}

// All walks through the groups that q finds, in the order of List; q.Limit is the size of a page.
// It ends with the first error. Groups with new failures meanwhile may be missing.
func (f Failures) All(ctx context.Context, q Query) iter.Seq2[Group, error] {
	return func(yield func(Group, error) bool) {
		for {
			page, err := f.store.Failures(ctx, q)
			if err != nil {
				yield(Group{}, err)
				return
			}
			for _, g := range page {
				if q.After = g.Cursor(); !yield(g, nil) {
					return
				}
			}
			if len(page) == 0 || q.ID != "" {
				return
			}
		}
	}
}

// Mute mutes a group, or ends its mute with m.Off. ErrNotFound if there is none.
func (f Failures) Mute(ctx context.Context, id string, m Mute) (Group, error) {
	return f.store.MuteFailure(ctx, id, m)
}

// none is a store without failure groups.
type none struct{}

func (none) Failures(context.Context, Query) ([]Group, error) { return nil, errNone() }

func (none) MuteFailure(context.Context, string, Mute) (Group, error) { return Group{}, errNone() }

func errNone() error {
	return sojourn.Invalid("store", "this store does not group failures; use one of store/sqlite, store/postgres or httpapi")
}

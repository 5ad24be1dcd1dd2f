package ui

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/plain"
)

// Limits of the overview.
const (
	maxQueues   = 1000            // that are shown
	longWait    = 5 * time.Minute // of a ready job in a queue that nothing holds back
	shownFailed = 8
)

// queueList returns the queues that the person may see with their counts, and how old these are.
func (q *request) queueList() ([]sojourn.QueueStatus, time.Duration, error) {
	return q.who.queues.get("", func() (found []sojourn.QueueStatus, err error) {
		for one, err := range q.who.client.Queues().All(q.ctx) {
			if err != nil {
				return nil, err
			}
			if found = append(found, one); len(found) == maxQueues {
				break
			}
		}
		return found, nil
	})
}

// someQueues names queues that the person may look at, for the page that refuses to show all jobs.
func (q *request) someQueues() (names []string) {
	if q.who == nil {
		return nil
	}
	found, _, err := q.queueList()
	if err != nil {
		return nil
	}
	for _, one := range found[:min(len(found), 50)] {
		names = append(names, one.Name)
	}
	return names
}

// finding is a sentence about something that an operator should look at.
type finding struct {
	Bad  bool // else it may be meant so
	Text string
	Link any // to what it is about; relative to the overview
}

// tile is a number on the overview.
type tile struct {
	State string
	Count int64
	Note  string
}

// overview is the data of the first page.
type overview struct {
	Status   sojourn.Status
	Findings []finding
	Tiles    []tile
	Queues   []sojourn.QueueStatus
	Failed   []*sojourn.Job
	Age      time.Duration // of the counts
	Hidden   bool          // the reader may not see jobs of all queues
}

func overviewPage(q *request) (page, error) {
	queues, age, err := q.queueList()
	if err != nil {
		return page{}, err
	}
	o := overview{Queues: byAttention(queues), Age: age, Tiles: tiles(queues)}
	if o.Status, err = q.who.client.Store().Status(q.ctx); err != nil {
		return page{}, err
	}
	for _, one := range queues {
		o.Findings = append(o.Findings, findings(&one, o.Status.Now)...)
	}
	if counts, err := q.who.client.Inbox().Counts(q.ctx); err == nil { // a token may lack the grant for all of it
		o.Findings = append(o.Findings, inboxFindings(counts)...)
	}
	operations, err := q.newestOperations()
	if err != nil {
		return page{}, err
	}
	o.Findings = append(o.Findings, operationFindings(operations)...)
	slices.SortStableFunc(o.Findings, func(a, b finding) int { return cmp.Compare(rank(b.Bad), rank(a.Bad)) })
	failed, err := q.who.client.Jobs().List(q.ctx, sojourn.Filter{States: []sojourn.State{sojourn.Failed}, Newest: true, Limit: shownFailed})
	if o.Failed = failed.Items; err != nil {
		if !refused(err) {
			return page{}, err
		}
		o.Hidden = true
	}
	return page{name: "overview", title: "Overview", nav: "overview", live: 1, data: o}, nil
}

func rank(bad bool) int {
	if bad {
		return 1
	}
	return 0
}

// refused reports whether a token lacks a grant.
func refused(err error) bool { return statusOf(err) == http.StatusForbidden }

// tiles sums the counts of all queues.
func tiles(queues []sojourn.QueueStatus) []tile {
	sum := map[sojourn.State]int64{}
	var stalled, resumed int64
	for _, one := range queues {
		for state, n := range one.Counts {
			sum[state] += n
		}
		stalled, resumed = stalled+one.Stalled, resumed+one.Resumed
	}
	var out []tile
	for state := sojourn.Blocked; state <= sojourn.Cancelled; state++ {
		t := tile{State: state.String(), Count: sum[state]}
		switch {
		case state == sojourn.Running && stalled > 0:
			t.Note = plain.Number(stalled) + " stalled"
		case state == sojourn.Ready && resumed > 0:
			t.Note = plain.Number(resumed) + " resumed"
		}
		out = append(out, t)
	}
	return out
}

// byAttention puts the queues first in which jobs wait longest.
func byAttention(queues []sojourn.QueueStatus) []sojourn.QueueStatus {
	return slices.SortedStableFunc(slices.Values(queues), func(a, b sojourn.QueueStatus) int {
		if a.OldestReady.IsZero() != b.OldestReady.IsZero() {
			return cmp.Compare(rank(b.OldestReady.IsZero()), rank(a.OldestReady.IsZero())) * -1
		}
		return cmp.Or(a.OldestReady.Compare(b.OldestReady), cmp.Compare(a.Name, b.Name))
	})
}

// findings says what holds back or endangers the jobs of a queue.
func findings(s *sojourn.QueueStatus, now time.Time) (found []finding) {
	ready := s.Counts[sojourn.Ready]
	to := link("queue", "name", s.Name)
	note := func(bad bool, format string, args ...any) {
		found = append(found, finding{bad, fmt.Sprintf(format, args...), to})
	}
	held := s.Settings.Paused || s.HeldUntil.After(now)
	switch {
	case s.Settings.Paused:
		note(false, "Queue %s is paused; %s wait.", s.Name, plain.Counted(ready, "job"))
	case s.HeldUntil.After(now):
		note(false, "Queue %s is held for %s: %s", s.Name, plain.Duration(s.HeldUntil.Sub(now)), cmp.Or(s.HoldReason, "no reason given"))
	case s.Breaker != "" && s.Breaker != "closed":
		held = true
		note(true, "The circuit breaker of queue %s is %s; %s wait.", s.Name, s.Breaker, plain.Counted(ready, "job"))
	case s.Settings.Limit > 0 && s.InFlight >= s.Settings.Limit && ready > 0:
		held = true
		note(false, "The limit of queue %s is full (%s of %s); %s wait.", s.Name, plain.Number(s.InFlight), plain.Number(s.Settings.Limit), plain.Counted(ready, "job"))
	}
	for _, kind := range slices.Sorted(maps.Keys(s.Unhandled)) {
		held = true
		note(true, "No worker asks for kind %s in queue %s; %s wait.", kind, s.Name, plain.Counted(s.Unhandled[kind], "job"))
	}
	if s.Stalled > 0 {
		note(true, "%s of queue %s run under a lease that is over: their workers have stopped reporting.", plain.Counted(s.Stalled, "job"), s.Name)
	}
	if s.ThrottleErrors > 0 && now.Sub(s.ThrottleErrorAt) < time.Hour {
		note(true, "The throttler of queue %s fails: %s", s.Name, s.ThrottleError)
	}
	if wait := now.Sub(s.OldestReady); !held && !s.OldestReady.IsZero() && wait > longWait && len(s.Settings.Windows) == 0 {
		note(true, "The oldest ready job of queue %s waits for %s.", s.Name, plain.Duration(wait))
	}
	return found
}

// inboxFindings says which responses no job gets without an operator.
func inboxFindings(counts sojourn.InboxCounts) (found []finding) {
	for _, c := range []struct {
		outcome sojourn.ResponseOutcome
		text    string
	}{{sojourn.Unmatched, "matched no job"}, {sojourn.Parked, "could not be read by their source"}, {sojourn.Conflicting, "repeat a message id with other content"}} {
		if n := counts.Lying[c.outcome]; n > 0 {
			more := ""
			if n >= sojourn.MaxInboxCount {
				more = " or more"
			}
			found = append(found, finding{true, fmt.Sprintf("%s%s in the inbox %s.", plain.Counted(n, "response"), more, c.text), link("waiting", "outcome", c.outcome)})
		}
	}
	return found
}

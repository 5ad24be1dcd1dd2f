package ui

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/plain"
)

// Limits of the page of waiting jobs.
const (
	sampledJobs  = sojourn.MaxFind // the oldest awaiting jobs, which are grouped by kind
	shownWaiting = 30
	shownInbox   = 50
	soon         = time.Hour
)

// waitingKind are the awaiting jobs of a kind in a queue.
type waitingKind struct {
	Kind, Queue          string
	Count, Overdue, Soon int64
	Oldest               time.Time
}

// waitingData is the data of the page of waiting jobs and the inbox.
type waitingData struct {
	Kinds     []waitingKind
	Sampled   bool // there are more jobs than were grouped
	Jobs      []*sojourn.Job
	NoJobs    string // why Jobs is empty
	Counts    sojourn.InboxCounts
	NoCounts  string
	Outcomes  []sojourn.ResponseOutcome
	Outcome   sojourn.ResponseOutcome // of the inbox, "" = what needs an operator
	Responses []*sojourn.Response
	Next      string
	NoInbox   string
	Sources   []string
}

// attention are the outcomes with which a response waits for an operator.
var attention = []sojourn.ResponseOutcome{sojourn.Unmatched, sojourn.Parked, sojourn.Conflicting, sojourn.Late, sojourn.Stale}

var allOutcomes = []sojourn.ResponseOutcome{sojourn.Unmatched, sojourn.Parked, sojourn.Conflicting, sojourn.Late, sojourn.Stale, sojourn.Early, sojourn.Applied, sojourn.Discarded}

// waitingPage shows who owes an answer, and the responses that no job has taken.
func waitingPage(q *request) (page, error) {
	d := waitingData{Outcomes: allOutcomes, Outcome: sojourn.ResponseOutcome(q.get("outcome"))}
	kind, queue := q.get("kind"), q.get("queue")
	found, err := q.who.client.Jobs().List(q.ctx, sojourn.Filter{States: []sojourn.State{sojourn.Awaiting}, Kind: kind, Queue: queue, Limit: sampledJobs})
	switch {
	case refused(err):
		d.NoJobs = "Your token may not see the jobs of all queues. Open a queue, and choose its waiting jobs there."
	case err != nil:
		return page{}, err
	case len(found.Items) == 0:
		d.NoJobs = "No job waits for an answer."
	}
	d.Kinds, d.Sampled = byKind(found.Items), found.Next != ""
	d.Jobs = soonest(found.Items)
	if d.Counts, err = q.who.client.Inbox().Counts(q.ctx); err != nil {
		if !refused(err) {
			return page{}, err
		}
		d.NoCounts = "Your token may not see the inbox of all kinds."
	}
	for source := range d.Counts.BySource {
		d.Sources = append(d.Sources, source)
	}
	slices.Sort(d.Sources)
	f := sojourn.InboxFilter{Outcomes: attention, Kind: kind, After: q.get("after"), Limit: shownInbox}
	if d.Outcome != "" {
		f.Outcomes = []sojourn.ResponseOutcome{d.Outcome}
	}
	inbox, err := q.who.client.Inbox().List(q.ctx, f)
	switch d.Responses, d.Next = inbox.Items, inbox.Next; {
	case refused(err):
		d.NoInbox = "Your token may not see responses: they need the verb read:args."
	case err != nil:
		return page{}, err
	case len(d.Responses) == 0 && d.Outcome == "":
		d.NoInbox = "The inbox is empty: every response has found its job."
	case len(d.Responses) == 0:
		d.NoInbox = "There is no response with this outcome."
	}
	return page{name: "waiting", title: "Waiting", nav: "waiting", live: 2, data: d}, nil
}

// byKind groups jobs by kind and queue, those with overdue answers first.
func byKind(jobs []*sojourn.Job) []waitingKind {
	groups := map[[2]string]*waitingKind{}
	for _, j := range jobs {
		name := [2]string{j.Kind, j.Queue}
		g := groups[name]
		if g == nil {
			g = &waitingKind{Kind: j.Kind, Queue: j.Queue, Oldest: j.UpdatedAt}
			groups[name] = g
		}
		g.Count++
		if j.UpdatedAt.Before(g.Oldest) {
			g.Oldest = j.UpdatedAt
		}
		switch {
		case plain.Overdue(j):
			g.Overdue++
		case j.Waiting != nil && !j.Waiting.Until.IsZero() && time.Until(j.Waiting.Until) < soon:
			g.Soon++
		}
	}
	var out []waitingKind
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b waitingKind) int {
		return cmp.Or(cmp.Compare(b.Overdue, a.Overdue), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Queue, b.Queue))
	})
	return out
}

// soonest are the jobs whose answers are due first.
func soonest(jobs []*sojourn.Job) []*sojourn.Job {
	due := func(j *sojourn.Job) time.Time {
		if j.Waiting == nil || j.Waiting.Until.IsZero() {
			return time.Unix(1<<40, 0)
		}
		return j.Waiting.Until
	}
	sorted := slices.SortedStableFunc(slices.Values(jobs), func(a, b *sojourn.Job) int { return cmp.Or(due(a).Compare(due(b)), cmp.Compare(a.ID, b.ID)) })
	return sorted[:min(len(sorted), shownWaiting)]
}

// responseData is the data of the page of one response.
type responseData struct {
	Response *sojourn.Response
	Near     []sojourn.NearMiss
	Open     bool // an operator may still decide about it
}

// responsePage shows one response, and jobs whose keys are nearly its own.
func responsePage(q *request) (page, error) {
	seq, err := strconv.ParseInt(q.get("seq"), 10, 64)
	if err != nil || seq < 1 || seq == 1<<63-1 {
		return page{}, sojourn.NotFound("%.64q is not the number of a response", q.get("seq"))
	}
	found, err := q.who.client.Inbox().List(q.ctx, sojourn.InboxFilter{After: strconv.FormatInt(seq+1, 10), Limit: 1})
	if err != nil {
		return page{}, err
	}
	if len(found.Items) == 0 || found.Items[0].Seq != seq {
		return page{}, sojourn.NotFound("there is no response %d", seq)
	}
	d := responseData{Response: found.Items[0]}
	d.Open = d.Response.Replay == 0 && d.Response.Outcome != sojourn.Applied && d.Response.Outcome != sojourn.Discarded
	if r := d.Response; d.Open && r.Kind != "" && r.Key != "" {
		near, err := q.who.client.Inbox().NearMisses(q.ctx, r.Kind, r.Key)
		if err != nil && !refused(err) {
			return page{}, err
		}
		d.Near = slices.DeleteFunc(near, func(n sojourn.NearMiss) bool { return n.Job == 0 })
	}
	return page{name: "response", title: "Response " + strconv.FormatInt(seq, 10), nav: "waiting", data: d}, nil
}

// doInbox matches, retries or discards a response.
func doInbox(q *request) (string, error) {
	seq, err := strconv.ParseInt(q.get("seq"), 10, 64)
	if err != nil {
		return "", sojourn.Invalid("seq", "%.64q is not the number of a response", q.get("seq"))
	}
	inbox, back := q.who.client.Inbox(), "response?seq="+strconv.FormatInt(seq, 10)+"&done="
	switch action := q.get("action"); action {
	case sojourn.InboxMatch:
		id, _, err := q.formJob()
		if err != nil {
			return "", err
		}
		_, err = inbox.Match(q.ctx, seq, sojourn.Response{Job: id})
		return "jobs/" + id.String() + "?done=matched", err
	case sojourn.InboxRetry:
		_, err := inbox.Retry(q.ctx, seq)
		return back + "retried", err
	case sojourn.InboxDiscard:
		_, err := inbox.Discard(q.ctx, seq)
		return back + "discarded", err
	default:
		return "", sojourn.Invalid("action", "%.64q is not an action: use match, retry or discard", action)
	}
}

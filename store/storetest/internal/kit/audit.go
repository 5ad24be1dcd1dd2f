package kit

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// rowLaws checks the invariants of every job at every moment.
func (s *environment) rowLaws(j sojourn.Job) {
	s.Helper()
	run := j.State == sojourn.Running
	for _, law := range []struct {
		ok   bool
		text string
	}{
		{run == (j.Worker != ""), "a job has a worker exactly while it runs (inv:F1)"},
		{run == (j.Purpose != sojourn.NoPurpose), "a step has a purpose exactly while it runs (inv:F1)"},
		{!j.Resumed || j.State == sojourn.Ready, "only a ready job can be resumed"},
		{j.State.Final() != j.FinishedAt.IsZero(), "a job has an end exactly when it is final (spec:J16)"},
		{j.State.Final() || j.State == sojourn.Ready || j.State == sojourn.Blocked || !j.WakeAt.IsZero(), "a job that is neither final, ready nor blocked has a wake-up (inv:L1)"},
		{!j.State.Final() || j.Kept == 0, "nothing stays kept for a final job (rules:B5)"},
		{!j.Resumed || j.Response != nil || len(j.Responses) > 0, "a resumed job has its answer in hand (tr:M1)"},
		{(j.Response == nil) == (len(j.Responses) == 0), "Response is there exactly when Responses are"},
		{j.Generation >= 1, "generations count from 1"},
		{j.Epoch >= 0 && j.Kept >= 0 && j.Failures >= 0 && j.Crashes >= 0, "counters are never negative"},
		{(j.State == sojourn.Blocked) == (j.WaitsFor > 0), "a job waits for others exactly while it is blocked (inv:G1)"},
		{int64(j.Attempt) <= j.Epoch, "there is no attempt without a claim (inv:S3)"},
		{!j.CreatedAt.IsZero() && !j.UpdatedAt.Before(j.CreatedAt), "a job is updated at or after its creation (spec:J14)"},
	} {
		if !law.ok {
			s.Fatalf("job %d breaks a law: %s\n%s", j.ID, law.text, Text(j))
		}
	}
}

// Audit checks all contents of the store, at the end of each case.
func (s *environment) Audit() {
	s.Helper()
	if s.Closed || s.Failed() {
		return
	}
	s.Sweep() // handles overdue jobs that the case has left
	type name struct{ kind, key string }
	owners := map[name]sojourn.ID{}
	kept := map[sojourn.ID]int32{}
	for _, r := range s.Inbox(sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{sojourn.Early}, Limit: sojourn.MaxFind}) {
		kept[r.Job]++
	}
	for after, page := sojourn.ID(0), sojourn.MaxFind; ; {
		jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{After: cursor(after), Limit: page, Full: true})
		if sojourn.ErrorCode(err) == sojourn.CodeUnavailable && page > 10 { // a busy machine: the read took too long
			page /= 4
			continue
		}
		s.Must(err, "Find")
		if len(jobs) == 0 {
			break
		}
		for _, j := range jobs {
			s.rowLaws(j)
			if j.ID <= after {
				s.Fatalf("Find gave job %d after %d", j.ID, after)
			}
			after = j.ID
			if j.State.Live() && j.Key != "" {
				n := name{j.Kind, j.Key}
				if other := owners[n]; other != 0 {
					s.Fatalf("jobs %d and %d are live with the key %q (inv:U1)", other, j.ID, j.Key)
				}
				owners[n] = j.ID
			}
			if j.Kept != kept[j.ID] {
				s.Fatalf("job %d counts %d kept responses, its inbox has %d", j.ID, j.Kept, kept[j.ID])
			}
		}
		for _, j := range jobs[:min(len(jobs), 20)] { // more would only cost time
			s.History(j.ID)
		}
	}
	if c, ok := s.Store.(driver.Checker); ok {
		vs, err := c.Check(s.Ctx)
		s.Must(err, "Check")
		for _, v := range vs {
			s.Errorf("the store's own check %s found: %s", v.Check, v.Detail)
		}
	}
}

// cursor is Filter.After behind a job; 0 is the start.
func cursor(after sojourn.ID) string {
	if after == 0 {
		return ""
	}
	return after.String()
}

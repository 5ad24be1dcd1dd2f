package storetest

import (
	"encoding/json"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// rowLaws checks the invariants of every job at every moment.
func (s *scene) rowLaws(j sojourn.Job) {
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
		{j.State.Final() || j.State == sojourn.Ready || !j.WakeAt.IsZero(), "a job that is neither final nor ready has a wake-up (inv:L1)"},
		{!j.State.Final() || j.Kept == 0, "nothing stays kept for a final job (rules:B5)"},
		{!j.Resumed || j.Response != nil || len(j.Responses) > 0, "a resumed job has its answer in hand (tr:M1)"},
		{(j.Response == nil) == (len(j.Responses) == 0), "Response is there exactly when Responses are"},
		{j.Generation >= 1, "generations count from 1"},
		{j.Epoch >= 0 && j.Kept >= 0 && j.Failures >= 0 && j.Crashes >= 0, "counters are never negative"},
		{int64(j.Attempt) <= j.Epoch, "there is no attempt without a claim (inv:S3)"},
		{!j.CreatedAt.IsZero() && !j.UpdatedAt.Before(j.CreatedAt), "a job is updated at or after its creation (spec:J14)"},
	} {
		if !law.ok {
			s.Fatalf("job %d breaks a law: %s\n%s", j.ID, law.text, text(j))
		}
	}
}

// audit checks all contents of the store, at the end of each case.
func (s *scene) audit() {
	s.Helper()
	if s.closed || s.Failed() {
		return
	}
	s.sweep() // handles overdue jobs that the case has left
	type name struct{ kind, key string }
	owners := map[name]sojourn.ID{}
	kept := map[sojourn.ID]int32{}
	for _, r := range s.inbox(sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{sojourn.Early}, Limit: sojourn.MaxFind}) {
		kept[r.Job]++
	}
	for after := sojourn.ID(0); ; {
		jobs, err := s.store.Find(s.ctx, sojourn.Filter{After: cursor(after), Limit: sojourn.MaxFind, Full: true})
		s.must(err, "Find")
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
			s.history(j.ID)
		}
	}
	if c, ok := s.store.(driver.Checker); ok {
		vs, err := c.Check(s.ctx)
		s.must(err, "Check")
		for _, v := range vs {
			s.Errorf("the store's own check %s found: %s", v.Check, v.Detail)
		}
	}
}

// history reads the history of a job and checks that it is complete.
func (s *scene) history(id sojourn.ID) []sojourn.Attempt {
	s.Helper()
	as, err := s.store.History(s.ctx, id, 0, sojourn.MaxFind)
	s.must(err, "History of %d", id)
	steps := map[int64]bool{}
	last := int32(0)
	for i, a := range as {
		if a.Seq != last+a.Dropped+1 || a.Dropped < 0 || a.Dropped > 0 && (i != 1 || len(as) != sojourn.MaxHistory+1) {
			s.Fatalf("history of job %d: entry %d has the number %d behind %d, dropped %d (inv:S1)", id, i+1, a.Seq, last, a.Dropped)
		}
		last = a.Seq
		if a.Epoch > 0 && steps[a.Epoch] {
			s.Fatalf("history of job %d: two entries for the step with epoch %d (rules:A2)", id, a.Epoch)
		}
		if a.Epoch > 0 {
			steps[a.Epoch] = true
		}
		if i > 0 && a.EndedAt.Before(as[i-1].EndedAt) {
			s.Fatalf("history of job %d is not in the order of time", id)
		}
	}
	return as
}

// happened wants the history of a job to have these outcomes.
func (s *scene) happened(id sojourn.ID, want ...string) []sojourn.Attempt {
	s.Helper()
	as := s.history(id)
	var got []string
	for _, a := range as {
		got = append(got, a.Outcome)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		s.Fatalf("history of job %d is %v, want %v", id, got, want)
	}
	return as
}

// picture is everything that can be seen of a job.
func (s *scene) picture(id sojourn.ID) string {
	s.Helper()
	log, err := s.store.Log(s.ctx, id)
	s.must(err, "Log of %d", id)
	j := s.get(id)
	q := s.queue(j.Queue)
	return text(map[string]any{
		"job": j, "held": q.InFlight, "counts": q.Counts, "history": s.history(id), "log": log,
		"inbox": s.inbox(sojourn.InboxFilter{Limit: sojourn.MaxFind}),
	})
}

// unchanged wants a job to look as it did.
func (s *scene) unchanged(id sojourn.ID, before, what string) {
	s.Helper()
	after := s.picture(id)
	if after == before {
		return
	}
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	for i := range min(len(was), len(is)) {
		if was[i] != is[i] {
			s.Fatalf("%s has changed job %d:\n  before: %s\n  after:  %s", what, id, strings.TrimSpace(was[i]), strings.TrimSpace(is[i]))
		}
	}
	s.Fatalf("%s has changed job %d:\n%s\nbecame\n%s", what, id, before, after)
}

func text(v any) string {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// cursor is Filter.After behind a job; 0 is the start.
func cursor(after sojourn.ID) string {
	if after == 0 {
		return ""
	}
	return after.String()
}

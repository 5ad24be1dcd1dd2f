package kit

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
)

// Get reads a job, complete, and checks the invariants of every row.
func (s *environment) Get(id sojourn.ID) sojourn.Job {
	s.Helper()
	jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{id}, Full: true})
	s.Must(err, "Find %d", id)
	if len(jobs) != 1 {
		s.Fatalf("Find gave %d jobs with the id %d, want 1", len(jobs), id)
	}
	s.rowLaws(jobs[0])
	return jobs[0]
}

// Gone wants no job to have the id.
func (s *environment) Gone(id sojourn.ID) {
	s.Helper()
	jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{id}})
	s.Must(err, "Find %d", id)
	if len(jobs) != 0 {
		s.Fatalf("job %d is still there, %s", id, jobs[0].State)
	}
}

// State wants a job to be in a state.
func (s *environment) State(id sojourn.ID, want sojourn.State) sojourn.Job {
	s.Helper()
	j := s.Get(id)
	if j.State != want {
		s.Fatalf("job %d is %s (reason %q, error %q), want %s", id, j.State, j.Reason, j.Error, want)
	}
	return j
}

// Counters wants attempt, failures and crashes.
func (s *environment) Counters(id sojourn.ID, attempt, failures, crashes int32) {
	s.Helper()
	j := s.Get(id)
	if j.Attempt != attempt || j.Failures != failures || j.Crashes != crashes {
		s.Fatalf("job %d has attempt %d, failures %d, crashes %d; want %d, %d, %d",
			id, j.Attempt, j.Failures, j.Crashes, attempt, failures, crashes)
	}
}

// Find lists the ids of jobs.
func (s *environment) Find(f sojourn.Filter) []sojourn.ID {
	s.Helper()
	jobs, err := s.Store.Find(s.Ctx, f)
	s.Must(err, "Find")
	var ids []sojourn.ID
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// Finds wants a filter to match jobs, in this order.
func (s *environment) Finds(f sojourn.Filter, want ...sojourn.ID) {
	s.Helper()
	if got := s.Find(f); !slices.Equal(got, want) {
		s.Fatalf("Find(%s) gave %v, want %v", Text(f), got, want)
	}
}

// History reads the history of a job and checks that it is complete.
func (s *environment) History(id sojourn.ID) []sojourn.HistoryEntry {
	s.Helper()
	as, err := s.Store.History(s.Ctx, id, 0, sojourn.MaxFind)
	s.Must(err, "History of %d", id)
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

// Happened wants the history of a job to have these outcomes.
func (s *environment) Happened(id sojourn.ID, want ...string) []sojourn.HistoryEntry {
	s.Helper()
	as := s.History(id)
	var got []string
	for _, a := range as {
		got = append(got, a.Outcome)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		s.Fatalf("history of job %d is %v, want %v", id, got, want)
	}
	return as
}

// Picture is everything that can be seen of a job.
func (s *environment) Picture(id sojourn.ID) string {
	s.Helper()
	log, err := s.Store.Log(s.Ctx, id)
	s.Must(err, "Log of %d", id)
	j := s.Get(id)
	q := s.Queue(j.Queue)
	return Text(map[string]any{
		"job": j, "held": q.InFlight, "counts": q.Counts, "history": s.History(id), "log": log,
		"inbox": s.Inbox(sojourn.InboxFilter{Limit: sojourn.MaxFind}),
	})
}

// Unchanged wants a job to look as it did.
func (s *environment) Unchanged(id sojourn.ID, before, what string) {
	s.Helper()
	after := s.Picture(id)
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

// LogLines reads the log of a job.
func (s *environment) LogLines(id sojourn.ID) []sojourn.LogLine {
	s.Helper()
	lines, err := s.Store.Log(s.Ctx, id)
	s.Must(err, "Log")
	return lines
}

// Inbox lists responses.
func (s *environment) Inbox(f sojourn.InboxFilter) []sojourn.Response {
	s.Helper()
	rs, err := s.Store.Inbox(s.Ctx, f)
	s.Must(err, "Inbox")
	return rs
}

// Queue reads the status of a queue.
func (s *environment) Queue(name string) sojourn.QueueStatus {
	s.Helper()
	qs, err := s.Store.Queues(s.Ctx, name)
	s.Must(err, "Queues")
	if len(qs) != 1 || qs[0].Name != name {
		s.Fatalf("Queues(%q) gave %d queues", name, len(qs))
	}
	return qs[0]
}

// Text is a value as indented JSON, for the messages of failures.
func Text(v any) string {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(b)
}

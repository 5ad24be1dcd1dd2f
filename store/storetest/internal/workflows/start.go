package workflows

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
	"github.com/sojourn-queue/sojourn/workflow"
)

var startTrials = []kit.Trial{
	{Name: "a workflow starts", Law: "All members are stored together, wait for each other by name, and say what they are members of.",
		Covers: "spec:D11", Run: starts},
	{Name: "the same workflow again", Law: "A workflow that is started again with the same content is a duplicate; with other content it is a conflict.",
		Covers: "spec:D11", Run: startsAgain},
	{Name: "a refused workflow", Law: "A workflow of which one member is refused leaves nothing.", Covers: "spec:D11", Run: startsNothing},
	{Name: "members are added", Law: "An open workflow takes members, each once, until it is closed; a large one is stored in several calls.",
		Covers: "spec:D11", Run: appends},
	{Name: "a name is free again", Law: "A name is taken until the workflow has been over for as long as it is kept, whatever becomes of its jobs.",
		Covers: "spec:D11", Run: keeps},
}

func starts(s *kit.Scene) {
	out := start(s, order("order-42"))
	kit.Same(s, "duplicate", out.Duplicate, false)
	is(s, "order-42", "running 1: blocked 1, ready 2")
	ship := member(s, "order-42", "ship")
	kit.Same(s, "workflow and member", ship.Workflow+" "+ship.Member, "order-42 ship")
	why, err := s.Store.Why(s.Ctx, ship.ID)
	s.Must(err, "Why")
	for _, part := range []string{"in workflow order-42 ", "member charge (job ", "member pack (job "} {
		if !strings.Contains(why.Waits, part) {
			s.Errorf("why says %q, without %q", why.Waits, part)
		}
	}
	kit.Same(s, "jobs", jobsOf(s, "order-42"), 3)
	c := s.Claim()
	kit.Same(s, "workflow of a claimed job", c.Job.Workflow, "order-42")
	s.Finish(kit.Completed(c), sojourn.Completed)
	is(s, "order-42", "running 1: blocked 1, ready 1, completed 1")
	end(s)
	called(s)
	kit.Same(s, "last", fmt.Sprint(end(s)), "[ship]")
	done := is(s, "order-42", "completed 1: completed 3")
	called(s, "end completed 1")
	s.At("end", done.EndedAt, s.Now())
	kit.Same(s, "callback", s.Get(done.EndJob).Kind, callbacks)
	plain := s.Get(s.Enqueue())
	kit.Same(s, "workflow of a plain job", plain.Workflow, "")
}

func startsAgain(s *kit.Scene) {
	start(s, order("a"))
	again := start(s, order("a"))
	kit.Same(s, "duplicate", again.Duplicate, true)
	kit.Same(s, "jobs", jobsOf(s, "a"), 3)
	for name, w := range map[string]*workflow.Workflow{
		"another member":   order("a").Add("more", job()),
		"another job":      workflow.New("a").Add("charge", job(sojourn.Priority(1))),
		"another edge":     workflow.New("a").Add("charge", job()).Add("pack", job()).Add("ship", job(), workflow.After("charge")).OnEnd(callback("end")).OnFirstFailure(callback("failure")),
		"another callback": order("a").OnEnd(callback("other")),
		"open":             order("a").StayOpen(),
	} {
		_, err := calls(s).Start(s.Ctx, w)
		s.Is(err, sojourn.ErrConflict, name)
	}
	end(s)
	end(s)
	s.Sweep()
	kit.Same(s, "duplicate of one that is over", start(s, order("a")).Duplicate, true)
	is(s, "a", "completed 1: completed 3")
}

func startsNothing(s *kit.Scene) {
	s.Enqueue(sojourn.Key("taken"))
	c := calls(s)
	for _, w := range []*workflow.Workflow{
		workflow.New("w").Add("a", job()).Add("b", job(sojourn.Key("taken"))),
		workflow.New("w").Add("a", job(sojourn.Key("x"))).Add("b", job(sojourn.Key("x"))),
		workflow.New("w").Add("a", job()).Add("b", job(sojourn.DependsOn(1<<40))),
	} {
		_, err := c.Start(s.Ctx, w)
		if sojourn.ErrorCode(err) == "" {
			s.Errorf("the workflow is not refused: %v", err)
		}
	}
	_, err := c.Start(s.Ctx, workflow.New("w").Add("a", job(), workflow.After("b")).Add("b", job(), workflow.After("a")))
	s.Is(err, sojourn.ErrConflict, "a cycle")
	_, err = c.Get(s.Ctx, "w")
	s.Is(err, sojourn.ErrNotFound, "Get")
	kit.Same(s, "jobs", len(find(s)), 1)
	kit.Same(s, "duplicate", start(s, workflow.New("w").Add("a", job())).Duplicate, false)
}

func appends(s *kit.Scene) {
	c := calls(s)
	start(s, workflow.New("w").Add("a", job()).OnEnd(callback("end")).StayOpen())
	end(s)
	is(s, "w", "open 1: completed 1")
	b := []workflow.Member{{Name: "b", Job: job(), After: []string{"a"}}, {Name: "c", Job: job(), After: []string{"b"}}}
	out, err := c.Append(s.Ctx, "w", b...)
	s.Must(err, "Append")
	kit.Same(s, "total", out.Total, 3)
	out, err = c.Append(s.Ctx, "w", b...)
	s.Must(err, "Append again")
	kit.Same(s, "duplicate", fmt.Sprint(out.Duplicate, out.Total), "true 3")
	_, err = c.Append(s.Ctx, "w", workflow.Member{Name: "b", Job: job()})
	s.Is(err, sojourn.ErrConflict, "other content")
	_, err = c.Append(s.Ctx, "w", workflow.Member{Name: "d", Job: job()}, workflow.Member{Name: "e", Job: job(), After: []string{"nobody"}})
	s.Refused(err, sojourn.CodeInvalid, "an unknown name")
	_, err = c.Append(s.Ctx, "nobody", b...)
	s.Is(err, sojourn.ErrNotFound, "no such workflow")
	is(s, "w", "open 1: blocked 1, ready 1, completed 1")
	end(s)
	end(s)
	called(s)
	out, err = c.Close(s.Ctx, "w")
	s.Must(err, "Close")
	kit.Same(s, "state", out.State, workflow.Completed)
	_, err = c.Close(s.Ctx, "w")
	s.Must(err, "Close again")
	called(s, "end completed 1")
	_, err = c.Append(s.Ctx, "w", workflow.Member{Name: "d", Job: job()})
	s.Is(err, sojourn.ErrConflict, "Append to a closed one")
	out, err = c.Append(s.Ctx, "w", b...)
	s.Must(err, "a late repetition of Append")
	kit.Same(s, "duplicate", out.Duplicate, true)

	start(s, workflow.New("empty").OnEnd(callback("end")).StayOpen())
	_, err = c.Close(s.Ctx, "empty")
	s.Must(err, "Close of one without members")
	called(s, "end completed 1")

	large := workflow.New("large").Add("last", job(), workflow.After("m2499"))
	for i := range 2500 {
		large.Add(fmt.Sprintf("m%04d", i), job())
	}
	for range 2 {
		_, err = c.StartAll(s.Ctx, large)
		s.Must(err, "StartAll")
	}
	is(s, "large", "running 1: blocked 1, ready 2500")
}

func keeps(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Retention: sojourn.Retention{Age: time.Hour, FailedAge: time.Hour}})
	w := order("a")
	w.Keep = 24 * time.Hour
	start(s, w)
	end(s, "charge")
	s.Advance(2 * time.Hour)
	s.Sweep()
	is(s, "a", "running 1: blocked 1, completed 1, failed 1")
	calls := calls(s)
	_, err := calls.Cancel(s.Ctx, "a", "")
	s.Must(err, "Cancel")
	called(s, "end failed 1", "failure 1")
	s.Advance(22 * time.Hour)
	s.Sweep()
	is(s, "a", "failed 1: completed 1, failed 1, cancelled 1")
	kit.Same(s, "jobs that are kept", jobsOf(s, "a"), 0)
	for m, err := range calls.Members(s.Ctx, "a", sojourn.Failed) {
		s.Must(err, "Members")
		kit.Same(s, "member", m.Name+" "+m.Kind, "charge ")
	}
	_, err = calls.Start(s.Ctx, workflow.New("a").Add("x", job()))
	s.Is(err, sojourn.ErrConflict, "the name before it is free")
	s.Advance(3 * time.Hour)
	s.Sweep()
	_, err = calls.Get(s.Ctx, "a")
	s.Is(err, sojourn.ErrNotFound, "Get of one that is kept no longer")
	kit.Same(s, "duplicate", start(s, w).Duplicate, false)
	is(s, "a", "running 1: blocked 1, ready 2")
}

package workflows

import (
	"context"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
	"github.com/sojourn-queue/sojourn/workflow"
)

var endTrials = []kit.Trial{
	{Name: "the first failure of a workflow", Law: "The first failure or cancel of a member enqueues its callback once; the end of the whole enqueues its own once.",
		Covers: "spec:D11 inv:E5", Run: firstFailure},
	{Name: "members after a failure", Law: "Each edge says what becomes of a member when another fails.", Covers: "spec:D11", Run: edges},
	{Name: "a member is redriven", Law: "A redrive of a member reopens a workflow that is over: the counts are right, and it ends once more.",
		Covers: "spec:D11 inv:E5", Run: redriven},
	{Name: "waiting for a workflow", Law: "Wait returns when the whole is final.", Covers: "spec:D11", Run: waits},
	{Name: "a callback that is refused", Law: "A callback that cannot be enqueued is tried again, and says why until then.", Covers: "inv:E5", Run: refusedCallback},
}

func firstFailure(s *kit.Scene) {
	start(s, order("a"))
	end(s, "charge")
	is(s, "a", "running 1: blocked 1, completed 1, failed 1")
	called(s, "failure 1")
	s.Cancel(member(s, "a", "ship").ID)
	called(s, "end failed 1")
	is(s, "a", "failed 1: completed 1, failed 1, cancelled 1")
	called(s)

	start(s, workflow.New("b").Add("x", job()).Add("y", job()).OnFirstFailure(callback("failure")))
	s.Cancel(member(s, "b", "x").ID)
	called(s, "failure 1")
	end(s, "y")
	called(s)
	is(s, "b", "failed 1: failed 1, cancelled 1")
}

func edges(s *kit.Scene) {
	w := workflow.New("a").Add("first", job())
	for _, a := range []sojourn.OnFailure{sojourn.WaitOnFailure, sojourn.CancelOnFailure, sojourn.FailOnFailure, sojourn.IgnoreFailure} {
		w.Add(string(a), job(), workflow.After("first").OnFailure(a))
	}
	start(s, w)
	end(s, "first")
	is(s, "a", "running 1: blocked 1, ready 1, failed 2, cancelled 1")
	s.State(member(s, "a", "wait").ID, sojourn.Blocked)
	kit.Same(s, "released", fmt.Sprint(end(s)), "[ignore]")
}

func redriven(s *kit.Scene) {
	start(s, workflow.New("a").Add("x", job()).Add("y", job()).OnEnd(callback("end")).OnFirstFailure(callback("failure")))
	end(s, "x")
	called(s, "end failed 1", "failure 1")
	x := member(s, "a", "x").ID
	s.Edited(x, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	is(s, "a", "running 2: ready 1, completed 1")
	end(s)
	is(s, "a", "completed 2: completed 2")
	called(s, "end completed 2")
	// While the whole goes on, a redrive belongs to the same generation.
	start(s, workflow.New("b").Add("x", job()).Add("y", job()).OnEnd(callback("end")).OnFirstFailure(callback("failure")))
	s.Cancel(member(s, "b", "x").ID)
	s.Edited(member(s, "b", "x").ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	is(s, "b", "running 1: ready 2")
	end(s, "x", "y")
	is(s, "b", "failed 1: failed 2")
	called(s, "end failed 1", "failure 1")
}

func waits(s *kit.Scene) {
	c := calls(s)
	start(s, workflow.New("a").Add("x", job()))
	ctx, cancel := context.WithTimeout(s.Ctx, kit.Patience)
	defer cancel()
	type answer struct {
		w   workflow.Status
		err error
	}
	done := make(chan answer, 1)
	go func() {
		w, err := c.Wait(ctx, "a")
		done <- answer{w, err}
	}()
	select {
	case a := <-done:
		s.Fatalf("Wait returns early: %v %v", a.w, a.err)
	case <-time.After(kit.Moment):
	}
	end(s)
	a := <-done
	s.Must(a.err, "Wait")
	kit.Same(s, "state", a.w.State, workflow.Completed)
	_, err := c.Wait(ctx, "nobody")
	s.Is(err, sojourn.ErrNotFound, "Wait for nobody")
}

func refusedCallback(s *kit.Scene) {
	holder := s.Enqueue(kit.OfKind(callbacks), sojourn.Key("k"), sojourn.Queue("other"))
	j := callback("end")
	j.Key = "k"
	start(s, workflow.New("a").Add("x", job()).OnEnd(j))
	end(s)
	w := is(s, "a", "completed 1: completed 1")
	kit.Same(s, "callback", w.EndJob, 0)
	if w.Problem == "" {
		s.Error("nothing says why there is no callback")
	}
	s.Cancel(holder)
	s.Advance(2 * time.Minute)
	called(s, "end completed 1")
	kit.Same(s, "problem", get(s, "a").Problem, "")
}

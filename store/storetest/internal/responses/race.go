package responses

import (
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var raceTrials = []kit.Trial{
	{Name: "an answer and the timeout in one instant", Law: "The first commit wins; if the timeout does, the retry takes the answer, or it is late.",
		Covers: "tr:W4 tr:M1 tr:M3 tr:R3 spec:H4 inv:U4", Run: raceTimeout},
	{Name: "an answer and the crash in one instant", Law: "Whichever comes first, the next step has the answer.",
		Covers: "tr:W1 tr:R5 tr:M3 rules:B1 rules:B4", Run: raceCrash},
	{Name: "an answer and the cancel in one instant", Law: "Whichever comes first, the job is cancelled and the answer is recorded as late.",
		Covers: "tr:O1 tr:R3 rules:B5 spec:H5", Run: raceCancel},
	{Name: "an answer and the deadline in one instant", Law: "Whichever comes first, the job fails and the answer is late.",
		Covers: "tr:W6 tr:R3 rules:B5", Run: raceDeadline},
	{Name: "an answer and the claim of a retry", Law: "An answer before the claim is in hand; after it, the step's Await finds it.",
		Covers: "tr:M3 tr:R5 tr:F5 rules:B1", Run: raceClaim},
	{Name: "an answer and the end of the job", Law: "An answer around a completion is late either way, and never lost.",
		Covers: "tr:F1 tr:R3 rules:G6 inv:U4", Run: raceComplete},
	{Name: "rules:G1 answers and awaits side by side", Law: "Respond and Await may commit in any order: the job is always resumed.",
		Covers: "rules:G1 tr:M1 tr:F5 inv:U4", Run: raceAwait},
	{Name: "rules:G2 answers and late keys side by side", Law: "Respond, SetKey and Await may commit in any order: the job is always resumed.",
		Covers: "rules:G2 tr:L3 tr:M1 inv:U4", Run: raceSetKey},
	{Name: "rules:G6 answers and completions side by side", Law: "No answer is ever attached to a job that has ended.",
		Covers: "rules:G6 tr:F1 tr:R3 inv:U4", Run: raceCompletions},
	{Name: "cancels and reports side by side", Law: "Of a cancel and a report exactly one wins, and the other learns it.",
		Covers: "tr:O1 tr:F1 tr:L5 rules:A5 inv:S2", Run: raceCancels},
}

func raceTimeout(s *kit.Scene) {
	// The answer first.
	c := s.Running(sojourn.Key("a"))
	s.Finish(kit.Await(c, time.Minute), sojourn.Awaiting)
	s.Advance(time.Minute)
	s.Became(s.Respond("a"), sojourn.Applied, c.Job.ID)
	kit.Same(s, "the sweep", s.Sweep(), driver.Swept{})
	kit.Same(s, "resumed", s.State(c.Job.ID, sojourn.Ready).Resumed, true)
	s.Counters(c.Job.ID, 1, 0, 0)
	// The timeout first, and a retry waits.
	d := s.Running(kit.OfKind("b"), sojourn.Key("b"), kit.Steady(time.Hour))
	s.Finish(kit.Await(d, time.Minute), sojourn.Awaiting)
	s.Swept(time.Minute, driver.Swept{TimedOut: 1})
	r := s.Answer("b")
	r.Kind = "b"
	s.Became(s.Send(r), sojourn.Applied, d.Job.ID)
	kit.Same(s, "resumed", s.State(d.Job.ID, sojourn.Ready).Resumed, false)
	s.Counters(d.Job.ID, 1, 1, 0)
	// The timeout first, and it was the last attempt.
	e := s.Running(kit.OfKind("c"), sojourn.Key("c"), sojourn.MaxAttempts(1))
	s.Finish(kit.Await(e, time.Minute), sojourn.Awaiting)
	s.Swept(time.Minute, driver.Swept{TimedOut: 1})
	r = s.Answer("c")
	r.Kind = "c"
	s.Became(s.Send(r), sojourn.Late, e.Job.ID)
	s.State(e.Job.ID, sojourn.Failed)
}

func raceCrash(s *kit.Scene) {
	for _, answerFirst := range []bool{true, false} {
		c := s.Running(sojourn.Key("k"))
		s.Advance(kit.LeaseTime)
		var r sojourn.Responded
		if answerFirst {
			r = s.Respond("k")
			s.Became(r, sojourn.Early, c.Job.ID)
		}
		kit.Same(s, "lost leases", s.Sweep(), driver.Swept{Lost: 1})
		if !answerFirst {
			r = s.Respond("k")
			s.Became(r, sojourn.Applied, c.Job.ID)
		}
		s.Stored(r.Seq, sojourn.Applied)
		d := s.Claim()
		kit.Same(s, "the job", d.Job.ID, c.Job.ID)
		kit.Same(s, "the answer in hand", s.ClaimedResponse(d).Seq, r.Seq)
		s.Counters(c.Job.ID, 2, 0, 1)
		s.Finish(kit.Completed(d), sojourn.Completed)
	}
}

func raceCancel(s *kit.Scene) {
	for _, state := range []sojourn.State{sojourn.Awaiting, sojourn.Running} {
		for _, answerFirst := range []bool{true, false} {
			c := s.Running(sojourn.Key("k"))
			if state == sojourn.Awaiting {
				s.Finish(kit.Await(c, 0), state)
			}
			var r sojourn.Responded
			if answerFirst {
				r = s.Respond("k")
			}
			s.Cancel(c.Job.ID)
			if !answerFirst {
				r = s.Respond("k")
			}
			kit.Same(s, "the job of the answer", r.Job, c.Job.ID)
			s.Stored(r.Seq, sojourn.Late)
			s.State(c.Job.ID, sojourn.Cancelled)
		}
	}
}

func raceDeadline(s *kit.Scene) {
	for _, answerFirst := range []bool{true, false} {
		c := s.Awaiting(sojourn.Key("k"), sojourn.Deadline(time.Hour))
		s.Advance(time.Hour)
		var r sojourn.Responded
		if answerFirst {
			r = s.Respond("k")
		}
		kit.Same(s, "the sweep", s.Sweep(), driver.Swept{Deadlines: 1})
		if !answerFirst {
			r = s.Respond("k")
			kit.Same(s, "outcome", r.Outcome, sojourn.Late)
		}
		s.Stored(r.Seq, sojourn.Late)
		kit.Same(s, "reason", s.State(c.Job.ID, sojourn.Failed).Reason, sojourn.ReasonDeadline)
	}
}

func raceClaim(s *kit.Scene) {
	for _, answerFirst := range []bool{true, false} {
		c := s.Retrying(sojourn.Key("k"))
		s.Advance(10 * time.Second)
		var r sojourn.Responded
		if answerFirst {
			r = s.Respond("k")
		}
		d := s.Claim()
		kit.Same(s, "an answer in hand", d.Job.Response != nil, answerFirst)
		if !answerFirst {
			r = s.Respond("k")
			s.Became(r, sojourn.Early, c.Job.ID)
			kit.Same(s, "resumed", s.Finish(kit.Await(d, 0), sojourn.Ready).Resumed, true)
			d = s.Claim()
		}
		kit.Same(s, "the answer", s.ClaimedResponse(d).Seq, r.Seq)
		s.Finish(kit.Completed(d), sojourn.Completed)
	}
}

func raceComplete(s *kit.Scene) {
	for _, answerFirst := range []bool{true, false} {
		c := s.Running(sojourn.Key("k"))
		var r sojourn.Responded
		if answerFirst {
			r = s.Respond("k")
		}
		s.Finish(kit.Completed(c), sojourn.Completed)
		if !answerFirst {
			r = s.Respond("k")
		}
		kit.Same(s, "the job of the answer", r.Job, c.Job.ID)
		s.Stored(r.Seq, sojourn.Late)
	}
}

// rounds is the number of runs of a race; the order differs from one to the next.
const rounds = 15

func raceAwait(s *kit.Scene) {
	for range rounds {
		c := s.Running(sojourn.Key("k"))
		r, o := s.Answer("k"), kit.Await(c, 0)
		var err1, err2 error
		kit.SideBySide(func() { _, err1 = s.Store.Respond(s.Ctx, []sojourn.Response{r}) },
			func() { _, err2 = s.Store.Finish(s.Ctx, []sojourn.Outcome{o}) })
		s.Must(err1, "Respond")
		s.Must(err2, "Finish")
		kit.Same(s, "resumed", s.State(c.Job.ID, sojourn.Ready).Resumed, true)
		s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	}
}

func raceSetKey(s *kit.Scene) {
	for i := range rounds {
		key := fmt.Sprintf("k%d", i) // an answer for the key of a job that has ended would be late
		c := s.Running()
		r, o := s.Answer(key), kit.Await(c, 0)
		var err1, err2, err3, err4 error
		kit.SideBySide(func() { _, err1 = s.Store.Respond(s.Ctx, []sojourn.Response{r}) },
			func() {
				var errs []driver.Extended
				errs, err2 = s.Store.Save(s.Ctx, []driver.Saved{{Lease: c.Lease, Key: key}})
				if len(errs) == 1 {
					err3 = errs[0].Err
				}
				_, err4 = s.Store.Finish(s.Ctx, []sojourn.Outcome{o})
			})
		for _, err := range []error{err1, err2, err3, err4} {
			s.Must(err, "Respond, SetKey, Await")
		}
		s.Sweep() // a store with several writers may leave the last look to it
		kit.Same(s, "resumed", s.State(c.Job.ID, sojourn.Ready).Resumed, true)
		s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	}
}

func raceCompletions(s *kit.Scene) {
	for range rounds {
		c := s.Running(sojourn.Key("k"))
		r, o := s.Answer("k"), kit.Completed(c)
		var as []sojourn.Responded
		var err1, err2 error
		kit.SideBySide(func() { as, err1 = s.Store.Respond(s.Ctx, []sojourn.Response{r}) },
			func() { _, err2 = s.Store.Finish(s.Ctx, []sojourn.Outcome{o}) })
		s.Must(err1, "Respond")
		s.Must(err2, "Finish")
		s.Stored(as[0].Seq, sojourn.Late)
		kit.Same(s, "the job of the answer", as[0].Job, c.Job.ID)
		s.State(c.Job.ID, sojourn.Completed)
	}
}

func raceCancels(s *kit.Scene) {
	for range rounds {
		c := s.Running()
		o := kit.Completed(c)
		var ed sojourn.Page[sojourn.Edited]
		var fs []driver.Finished
		var err1, err2 error
		kit.SideBySide(func() {
			ed, err1 = s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{c.Job.ID}}, sojourn.Edit{Action: sojourn.EditCancel})
		}, func() { fs, err2 = s.Store.Finish(s.Ctx, []sojourn.Outcome{o}) })
		s.Must(err1, "Edit")
		s.Must(err2, "Finish")
		j := s.Get(c.Job.ID)
		cancelled, done := kit.Changed(ed) == 1, fs[0].Status == driver.FinishApplied
		if cancelled == done || cancelled != (j.State == sojourn.Cancelled) || done != (j.State == sojourn.Completed) {
			s.Fatalf("cancel answered %+v, Finish %+v, and the job is %s", ed, fs[0], j.State)
		}
	}
}

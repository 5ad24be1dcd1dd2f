package storetest

import (
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var raceTrials = []trial{
	{"an answer and the timeout in one instant", "The first commit wins; if the timeout does, the retry takes the answer, or it is late.",
		"tr:W4 tr:M1 tr:M3 tr:R3 spec:H4 inv:U4", raceTimeout},
	{"an answer and the crash in one instant", "Whichever comes first, the next step has the answer.", "tr:W1 tr:R5 tr:M3 rules:B1 rules:B4", raceCrash},
	{"an answer and the cancel in one instant", "Whichever comes first, the job is cancelled and the answer is recorded as late.",
		"tr:O1 tr:R3 rules:B5 spec:H5", raceCancel},
	{"an answer and the deadline in one instant", "Whichever comes first, the job fails and the answer is late.", "tr:W6 tr:R3 rules:B5", raceDeadline},
	{"an answer and the claim of a retry", "An answer before the claim is in hand; after it, the step's Await finds it.", "tr:M3 tr:R5 tr:F5 rules:B1", raceClaim},
	{"an answer and the end of the job", "An answer around a completion is late either way, and never lost.", "tr:F1 tr:R3 rules:G6 inv:U4", raceComplete},
	{"rules:G1 answers and awaits side by side", "Respond and Await may commit in any order: the job is always resumed.", "rules:G1 tr:M1 tr:F5 inv:U4", raceAwait},
	{"rules:G2 answers and late keys side by side", "Respond, SetKey and Await may commit in any order: the job is always resumed.",
		"rules:G2 tr:L3 tr:M1 inv:U4", raceSetKey},
	{"rules:G6 answers and completions side by side", "No answer is ever attached to a job that has ended.", "rules:G6 tr:F1 tr:R3 inv:U4", raceCompletions},
	{"cancels and reports side by side", "Of a cancel and a report exactly one wins, and the other learns it.", "tr:O1 tr:F1 tr:L5 rules:A5 inv:S2", raceCancels},
}

func raceTimeout(s *scene) {
	// The answer first.
	c := s.running(sojourn.Key("a"))
	s.finish(await(c, time.Minute), sojourn.Awaiting)
	s.advance(time.Minute)
	s.became(s.respond("a"), sojourn.Applied, c.Job.ID)
	same(s, "the sweep", s.sweep(), driver.Swept{})
	same(s, "resumed", s.state(c.Job.ID, sojourn.Ready).Resumed, true)
	s.counters(c.Job.ID, 1, 0, 0)
	// The timeout first, and a retry waits.
	d := s.running(ofKind("b"), sojourn.Key("b"), steady(time.Hour))
	s.finish(await(d, time.Minute), sojourn.Awaiting)
	s.swept(time.Minute, driver.Swept{TimedOut: 1})
	r := s.answer("b")
	r.Kind = "b"
	s.became(s.send(r), sojourn.Applied, d.Job.ID)
	same(s, "resumed", s.state(d.Job.ID, sojourn.Ready).Resumed, false)
	s.counters(d.Job.ID, 1, 1, 0)
	// The timeout first, and it was the last attempt.
	e := s.running(ofKind("c"), sojourn.Key("c"), sojourn.MaxAttempts(1))
	s.finish(await(e, time.Minute), sojourn.Awaiting)
	s.swept(time.Minute, driver.Swept{TimedOut: 1})
	r = s.answer("c")
	r.Kind = "c"
	s.became(s.send(r), sojourn.Late, e.Job.ID)
	s.state(e.Job.ID, sojourn.Failed)
}

func raceCrash(s *scene) {
	for _, answerFirst := range []bool{true, false} {
		c := s.running(sojourn.Key("k"))
		s.advance(lease)
		var r sojourn.Responded
		if answerFirst {
			r = s.respond("k")
			s.became(r, sojourn.Early, c.Job.ID)
		}
		same(s, "lost leases", s.sweep(), driver.Swept{Lost: 1})
		if !answerFirst {
			r = s.respond("k")
			s.became(r, sojourn.Applied, c.Job.ID)
		}
		s.lies(r.Seq, sojourn.Applied)
		d := s.claim()
		same(s, "the job", d.Job.ID, c.Job.ID)
		same(s, "the answer in hand", s.inHand(d).Seq, r.Seq)
		s.counters(c.Job.ID, 2, 0, 1)
		s.finish(completed(d), sojourn.Completed)
	}
}

func raceCancel(s *scene) {
	for _, state := range []sojourn.State{sojourn.Awaiting, sojourn.Running} {
		for _, answerFirst := range []bool{true, false} {
			c := s.running(sojourn.Key("k"))
			if state == sojourn.Awaiting {
				s.finish(await(c, 0), state)
			}
			var r sojourn.Responded
			if answerFirst {
				r = s.respond("k")
			}
			s.cancel(c.Job.ID)
			if !answerFirst {
				r = s.respond("k")
			}
			same(s, "the job of the answer", r.Job, c.Job.ID)
			s.lies(r.Seq, sojourn.Late)
			s.state(c.Job.ID, sojourn.Cancelled)
		}
	}
}

func raceDeadline(s *scene) {
	for _, answerFirst := range []bool{true, false} {
		c := s.awaiting(sojourn.Key("k"), sojourn.Deadline(time.Hour))
		s.advance(time.Hour)
		var r sojourn.Responded
		if answerFirst {
			r = s.respond("k")
		}
		same(s, "the sweep", s.sweep(), driver.Swept{Deadlines: 1})
		if !answerFirst {
			r = s.respond("k")
			same(s, "outcome", r.Outcome, sojourn.Late)
		}
		s.lies(r.Seq, sojourn.Late)
		same(s, "reason", s.state(c.Job.ID, sojourn.Failed).Reason, sojourn.ReasonDeadline)
	}
}

func raceClaim(s *scene) {
	for _, answerFirst := range []bool{true, false} {
		c := s.retrying(sojourn.Key("k"))
		s.advance(10 * time.Second)
		var r sojourn.Responded
		if answerFirst {
			r = s.respond("k")
		}
		d := s.claim()
		same(s, "an answer in hand", d.Job.Response != nil, answerFirst)
		if !answerFirst {
			r = s.respond("k")
			s.became(r, sojourn.Early, c.Job.ID)
			same(s, "resumed", s.finish(await(d, 0), sojourn.Ready).Resumed, true)
			d = s.claim()
		}
		same(s, "the answer", s.inHand(d).Seq, r.Seq)
		s.finish(completed(d), sojourn.Completed)
	}
}

func raceComplete(s *scene) {
	for _, answerFirst := range []bool{true, false} {
		c := s.running(sojourn.Key("k"))
		var r sojourn.Responded
		if answerFirst {
			r = s.respond("k")
		}
		s.finish(completed(c), sojourn.Completed)
		if !answerFirst {
			r = s.respond("k")
		}
		same(s, "the job of the answer", r.Job, c.Job.ID)
		s.lies(r.Seq, sojourn.Late)
	}
}

// rounds is the number of runs of a race; the order differs from one to the next.
const rounds = 15

func raceAwait(s *scene) {
	for range rounds {
		c := s.running(sojourn.Key("k"))
		r, o := s.answer("k"), await(c, 0)
		var err1, err2 error
		sideBySide(func() { _, err1 = s.store.Respond(s.ctx, []sojourn.Response{r}) },
			func() { _, err2 = s.store.Finish(s.ctx, []sojourn.Outcome{o}) })
		s.must(err1, "Respond")
		s.must(err2, "Finish")
		same(s, "resumed", s.state(c.Job.ID, sojourn.Ready).Resumed, true)
		s.finish(completed(s.claim()), sojourn.Completed)
	}
}

func raceSetKey(s *scene) {
	for i := range rounds {
		key := fmt.Sprintf("k%d", i) // an answer for the key of a job that has ended would be late
		c := s.running()
		r, o := s.answer(key), await(c, 0)
		var err1, err2, err3, err4 error
		sideBySide(func() { _, err1 = s.store.Respond(s.ctx, []sojourn.Response{r}) },
			func() {
				var errs []driver.Extended
				errs, err2 = s.store.Save(s.ctx, []driver.Saved{{Lease: c.Lease, Key: key}})
				if len(errs) == 1 {
					err3 = errs[0].Err
				}
				_, err4 = s.store.Finish(s.ctx, []sojourn.Outcome{o})
			})
		for _, err := range []error{err1, err2, err3, err4} {
			s.must(err, "Respond, SetKey, Await")
		}
		s.sweep() // a store with several writers may leave the last look to it
		same(s, "resumed", s.state(c.Job.ID, sojourn.Ready).Resumed, true)
		s.finish(completed(s.claim()), sojourn.Completed)
	}
}

func raceCompletions(s *scene) {
	for range rounds {
		c := s.running(sojourn.Key("k"))
		r, o := s.answer("k"), completed(c)
		var as []sojourn.Responded
		var err1, err2 error
		sideBySide(func() { as, err1 = s.store.Respond(s.ctx, []sojourn.Response{r}) },
			func() { _, err2 = s.store.Finish(s.ctx, []sojourn.Outcome{o}) })
		s.must(err1, "Respond")
		s.must(err2, "Finish")
		s.lies(as[0].Seq, sojourn.Late)
		same(s, "the job of the answer", as[0].Job, c.Job.ID)
		s.state(c.Job.ID, sojourn.Completed)
	}
}

func raceCancels(s *scene) {
	for range rounds {
		c := s.running()
		o := completed(c)
		var ed sojourn.Edited
		var fs []driver.Finished
		var err1, err2 error
		sideBySide(func() {
			ed, err1 = s.store.Edit(s.ctx, sojourn.Filter{IDs: []sojourn.ID{c.Job.ID}}, sojourn.Edit{Action: sojourn.EditCancel})
		}, func() { fs, err2 = s.store.Finish(s.ctx, []sojourn.Outcome{o}) })
		s.must(err1, "Edit")
		s.must(err2, "Finish")
		j := s.get(c.Job.ID)
		cancelled, done := ed.Changed == 1, fs[0].Status == driver.FinishApplied
		if cancelled == done || cancelled != (j.State == sojourn.Cancelled) || done != (j.State == sojourn.Completed) {
			s.Fatalf("cancel answered %+v, Finish %+v, and the job is %s", ed, fs[0], j.State)
		}
	}
}

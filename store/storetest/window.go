package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
)

var windowTrials = []trial{
	{"window without a run_at", "A job without a run_at is ready inside its windows, else it is scheduled at their next opening; what was asked for stays readable.",
		"spec:T1 spec:T2 spec:J26 tr:N2", windowNow},
	{"window and run_at", "A run_at inside the windows is kept, one outside is moved to the opening after it.", "spec:T3 tr:N2", windowRunAt},
	{"window closed at the claim", "A ready job that a claim finds outside its windows is scheduled soon after their next opening, and no attempt is counted.",
		"spec:T4 tr:S2", windowAtClaim},
	{"window of an open attempt", "A job that is put off with an open attempt goes on with it, and keeps the answer in hand.", "spec:T4 tr:S2 rules:B2", windowOpenAttempt},
	{"window and retries", "Backoff, snooze and a verdict's time are moved to the next opening, from the window's end across the night.", "spec:T6 tr:F2 tr:F7", windowRetries},
	{"window in front", "Jobs whose windows have closed hide nobody behind them: one claim puts all of them off and finds the open one.", "spec:T4 tr:S2", windowInFront},
	{"windows of kind, job and queue", "A job starts where its own windows and those of its queue are open.", "spec:T1 spec:J13", windowIntersection},
	{"windows of a queue", "A queue with closed windows starts nothing and changes no job; resumed and errored jobs go on, and a change of the windows counts at once.",
		"spec:T4 spec:T5 spec:A16", windowOfQueue},
	{"windows that never open", "Jobs and queues whose windows do not open within five years are refused.", "spec:T1", windowNever},
	{"window and redrive", "A job that is redriven outside its windows is scheduled at their next opening.", "tr:O3 spec:T3", windowRedrive},
	{"window and change", "A changed run_at is moved into the windows, and changed windows move the run_at.", "spec:P9 spec:T3", windowChange},
	{"window and replace", "A replacing job is moved into its own windows.", "tr:N6 spec:T2", windowReplace},
	{"stop at the window's end", "A step of a policy that says so is told how long its windows stay open; one that was resumed is not.", "spec:T4", windowEnd},
	{"resumed outside the window", "A response wakes a job outside its windows too: it holds its weight.", "spec:T4 tr:C3", windowResumed},
}

// office is open when a case begins: it is Monday, 09:00 UTC.
var office = sojourn.Window{Days: []string{"mon-fri"}, Start: "08:00", End: "17:00"}

// evening opens 13 hours later.
var evening = sojourn.Window{Start: "22:00", End: "23:00"}

func windowNow(s *scene) {
	asked := s.now()
	s.state(s.enqueue(sojourn.In(office)), sojourn.Ready)
	s.state(s.enqueue(sojourn.In(evening, office)), sojourn.Ready)
	j := s.state(s.enqueue(sojourn.In(evening)), sojourn.Scheduled)
	s.at("run_at", j.RunAt, asked.Add(13*time.Hour))
	s.at("orig_run_at", j.OrigRunAt, asked)
	s.claim()
	s.claim()
	s.advance(13*time.Hour - time.Second)
	s.claimNone("a second is left")
	s.advance(time.Second)
	same(s, "the job of the evening", s.claim().Job.ID, j.ID)
}

func windowRunAt(s *scene) {
	inside := s.enqueue(sojourn.In(office), sojourn.RunAt(s.now().Add(7*time.Hour)))
	s.at("run_at inside", s.state(inside, sojourn.Scheduled).RunAt, s.now().Add(7*time.Hour))
	end := s.enqueue(sojourn.In(office), sojourn.Delay(8*time.Hour))
	s.at("run_at at the end", s.state(end, sojourn.Scheduled).RunAt, s.now().Add(23*time.Hour))
	friday := s.enqueue(sojourn.In(office), sojourn.RunAt(s.now().Add(4*24*time.Hour+9*time.Hour)))
	j := s.state(friday, sojourn.Scheduled)
	s.at("run_at on Friday evening", j.RunAt, s.now().Add(7*24*time.Hour-time.Hour))
	s.at("orig_run_at", j.OrigRunAt, s.now().Add(4*24*time.Hour+9*time.Hour))
	past := s.enqueue(sojourn.In(office), sojourn.RunAt(s.now().Add(-2*time.Hour)))
	s.at("run_at in the past", s.state(past, sojourn.Ready).RunAt, s.now())
}

// putOff wants a job to start soon after an opening, and no trace of the claim that has found it.
func (s *scene) putOff(id sojourn.ID, opens time.Time, attempt int32) {
	s.Helper()
	j := s.state(id, sojourn.Scheduled)
	if d := j.RunAt.Sub(opens); d < 0 || d >= time.Minute {
		s.Fatalf("job %d was put off to %s, want within a minute of %s", id, j.RunAt, opens)
	}
	same(s, "attempt", j.Attempt, attempt)
	same(s, "failures and crashes", j.Failures+j.Crashes, 0)
}

func windowAtClaim(s *scene) {
	asked := s.now()
	ids := s.enqueueMany(20, sojourn.In(office))
	s.advance(8 * time.Hour)
	s.claimNone("the windows have closed")
	starts := map[time.Time]bool{}
	for _, id := range ids {
		s.putOff(id, asked.Add(23*time.Hour), 0)
		s.at("orig_run_at", s.get(id).OrigRunAt, asked)
		same(s, "entries of the history", len(s.history(id)), 0)
		starts[s.get(id).RunAt] = true
	}
	if len(starts) < 15 {
		s.Fatalf("20 jobs start at %d times: they would come all at once", len(starts))
	}
	s.advance(15 * time.Hour)
	s.advance(time.Minute)
	same(s, "claimed the next morning", len(s.claimMany(upTo(30))), 20)
	s.counters(ids[0], 1, 0, 0)
}

func windowOpenAttempt(s *scene) {
	c := s.running(sojourn.In(office), sojourn.Key("k"))
	s.finish(released(c), sojourn.Ready)
	s.advance(8 * time.Hour)
	s.claimNone("the windows have closed")
	s.putOff(c.Job.ID, s.now().Add(15*time.Hour), 1)
	s.respond("k")
	s.state(c.Job.ID, sojourn.Ready) // for the handler to look at: an ordinary ready job
	s.claimNone("the windows are closed")
	s.putOff(c.Job.ID, s.now().Add(15*time.Hour), 1)
	s.advance(15*time.Hour + time.Minute)
	d := s.claim()
	s.counters(c.Job.ID, 1, 0, 0)
	s.inHand(d)
	s.finish(completed(d), sojourn.Completed)
}

func windowRetries(s *scene) {
	opens := s.now().Add(23 * time.Hour)
	c := s.running(sojourn.In(office), steady(9*time.Hour))
	j := s.finish(failure(c), sojourn.Scheduled)
	s.at("the retry", j.RunAt, opens)
	c = s.running(sojourn.In(office), steady(time.Hour))
	j = s.finish(failure(c), sojourn.Scheduled)
	s.at("the retry inside", j.RunAt, s.now().Add(time.Hour))
	c = s.running(ofKind("b"), sojourn.In(office))
	j = s.finish(snooze(c, 10*time.Hour), sojourn.Scheduled)
	s.at("the end of the snooze", j.RunAt, opens)
	c = s.running(ofKind("b"), sojourn.In(office))
	o := failure(c)
	o.Verdict.RunAt = s.now().Add(12 * time.Hour)
	s.at("the verdict's time", s.finish(o, sojourn.Scheduled).RunAt, opens)
}

func windowInFront(s *scene) {
	ids := s.enqueueMany(900, sojourn.In(office), sojourn.Priority(1))
	free := s.enqueue(sojourn.Priority(2))
	s.advance(8 * time.Hour)
	behind := s.claim()
	same(s, "the job behind them", behind.Job.ID, free)
	s.finish(completed(behind), sojourn.Completed)
	for _, id := range []sojourn.ID{ids[0], ids[450], ids[899]} {
		s.putOff(id, s.now().Add(15*time.Hour), 0)
	}
	same(s, "jobs that are scheduled", s.queue(line).Counts[sojourn.Scheduled], 900)
	s.enqueueMany(700, sojourn.In(office), sojourn.Priority(1), sojourn.Delay(15*time.Hour))
	s.advance(15 * time.Hour)
	s.sweep()
	s.advance(9 * time.Hour)
	s.claimNone("nothing is open") // more than one transaction puts off
	same(s, "jobs that are ready", s.queue(line).Counts[sojourn.Ready], 0)
}

func windowIntersection(s *scene) {
	nine, noon := s.now(), sojourn.Window{Start: "12:00", End: "14:00"}
	kind := sojourn.Kind[int]{Name: charge, Policy: sojourn.Policy{Windows: []sojourn.Windows{{office}}}}
	j := *kind.New(1, sojourn.In(noon))
	j.ID = s.id()
	s.put(j)
	s.at("run_at", s.state(j.ID, sojourn.Scheduled).RunAt, nine.Add(3*time.Hour))
	s.setQueue(line, sojourn.QueueSettings{Windows: sojourn.Windows{{Start: "13:00", End: "20:00"}}})
	s.advance(3 * time.Hour)
	s.claimNone("the queue is closed")
	s.state(j.ID, sojourn.Ready)
	s.advance(time.Hour)
	same(s, "the job", s.claim().Job.ID, j.ID)
}

func windowOfQueue(s *scene) {
	errored := s.errored(sojourn.Key("e"))
	resumed := s.resumed("r")
	waiting := s.enqueueMany(3)
	s.setQueue(line, sojourn.QueueSettings{Windows: sojourn.Windows{evening}})
	got := s.claimMany(upTo(10), deciding)
	same(s, "jobs that go on", len(got), 2)
	for _, c := range got {
		if c.Job.ID != errored.Job.ID && c.Job.ID != resumed.Job.ID {
			s.Fatalf("job %d starts, the windows of its queue are closed", c.Job.ID)
		}
		s.report(released(c))
	}
	s.cancel(errored.Job.ID)
	s.cancel(resumed.Job.ID)
	s.claimNone("the queue is closed", upTo(10))
	for _, id := range waiting {
		same(s, "entries of the history", len(s.history(id)), 0)
		s.at("run_at", s.state(id, sojourn.Ready).RunAt, s.now())
	}
	s.setQueue(line, sojourn.QueueSettings{Windows: sojourn.Windows{evening, office}})
	first := s.claim()
	same(s, "the first job", first.Job.ID, waiting[0])
	s.finish(completed(first), sojourn.Completed)
	s.setQueue(line, sojourn.QueueSettings{Windows: sojourn.Windows{evening}})
	s.claimNone("the queue is closed again")
	s.advance(13 * time.Hour)
	second := s.claim()
	same(s, "the second job", second.Job.ID, waiting[1])
	s.finish(completed(second), sojourn.Completed)
	s.advance(time.Hour)
	s.claimNone("the hour is over")
	s.setQueue(line, sojourn.QueueSettings{})
	same(s, "the third job", s.claim().Job.ID, waiting[2])
}

func windowNever(s *scene) {
	s.setQueue("night", sojourn.QueueSettings{Windows: sojourn.Windows{evening}})
	for what, options := range map[string][]sojourn.Option{
		"two sets of the job": {sojourn.In(office), sojourn.In(evening)},
		"job and queue":       {sojourn.In(office), sojourn.Queue("night")},
	} {
		j := s.job(options...)
		_, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, false)
		s.refused(err, sojourn.CodeInvalid, what)
		s.gone(j.ID)
	}
	batch := make([]sojourn.Job, 200) // quickly: one look is enough for all that have the same windows
	for i := range batch {
		batch[i] = s.job(sojourn.In(office), sojourn.In(evening))
	}
	batch[100] = s.job(sojourn.In(office), sojourn.In(office, evening))
	es, err := s.store.Enqueue(s.ctx, batch, true)
	s.must(err, "Enqueue in part")
	for i, e := range es {
		if i == 100 {
			s.must(e.Err, "the one that opens")
			continue
		}
		s.refused(e.Err, sojourn.CodeInvalid, "in part")
	}
	mondays := sojourn.Window{Days: []string{"mon"}, Start: "08:00", End: "09:00"}
	for day := s.now(); len(mondays.Except) < 5*53; day = day.Add(7 * 24 * time.Hour) {
		mondays.Except = append(mondays.Except, day.Format(time.DateOnly))
	}
	s.refused(sojourn.NewClient(s.store).Queues().Set(s.ctx, line, sojourn.QueueSettings{Windows: sojourn.Windows{mondays}}), sojourn.CodeInvalid, "a queue that never opens")
	s.refused(sojourn.NewClient(s.store).Queues().Set(s.ctx, line, sojourn.QueueSettings{Windows: sojourn.Windows{{Start: "08:00", End: "09:00", Zone: "Mars"}}}), sojourn.CodeInvalid, "an unknown zone")
	id := s.enqueue()
	edited, err := s.store.Edit(s.ctx, sojourn.Filter{IDs: []sojourn.ID{id}}, sojourn.Edit{Action: sojourn.EditChange,
		Change: sojourn.Change{Policy: &sojourn.Policy{Windows: []sojourn.Windows{{office}, {evening}}}}})
	s.must(err, "Edit")
	s.refused(edited.Items[0].Err, sojourn.CodeInvalid, "a change to windows that never open")
	same(s, "windows after it", len(s.get(id).Policy.Windows), 0)
	s.setQueue(line, sojourn.QueueSettings{Windows: sojourn.Windows{evening}})
	s.state(s.enqueue(sojourn.In(office, evening)), sojourn.Ready)
}

func windowRedrive(s *scene) {
	c := s.running(sojourn.In(office))
	s.finish(abort(c), sojourn.Failed)
	s.advance(10 * time.Hour)
	j := s.edited(c.Job.ID, redriveEdit, sojourn.Scheduled)
	s.at("run_at", j.RunAt, s.now().Add(13*time.Hour))
	s.claimNone("the windows are closed")
	s.advance(13 * time.Hour)
	same(s, "generation", s.claim().Job.Generation, 2)
}

func windowChange(s *scene) {
	id := s.enqueue(sojourn.In(office))
	night := s.now().Add(12 * time.Hour)
	j := s.change(id, sojourn.Change{RunAt: &night}, sojourn.Scheduled)
	s.at("run_at", j.RunAt, s.now().Add(23*time.Hour))
	now := time.Duration(0)
	s.change(id, sojourn.Change{Delay: &now}, sojourn.Ready)
	j = s.change(id, sojourn.Change{Policy: &sojourn.Policy{Windows: []sojourn.Windows{{evening}}}}, sojourn.Scheduled)
	s.at("run_at", j.RunAt, s.now().Add(13*time.Hour))
}

func windowReplace(s *scene) {
	first := s.enqueue(sojourn.Key("k"))
	j := s.job(sojourn.Key("k"), sojourn.In(evening), sojourn.OnKeyConflict(sojourn.Replace))
	same(s, "replaced", s.put(j).Replaced, true)
	s.at("run_at", s.state(first, sojourn.Scheduled).RunAt, s.now().Add(13*time.Hour))
}

func windowEnd(s *scene) {
	stops := policy(sojourn.Policy{StopAtWindowEnd: new(true), Windows: []sojourn.Windows{{office}}})
	same(s, "left of the windows", s.running(stops).Window, 8*time.Hour)
	same(s, "without the option", s.running(sojourn.In(office)).Window, 0)
	same(s, "without windows", s.running(policy(sojourn.Policy{StopAtWindowEnd: new(true)})).Window, 0)
	s.setQueue(line, sojourn.QueueSettings{Windows: sojourn.Windows{{Start: "08:00", End: "09:30"}}})
	same(s, "left of the windows of the queue", s.running(stops).Window, 30*time.Minute)
	s.resumed("r", stops)
	got := s.claim()
	same(s, "purpose", got.Purpose, sojourn.PurposeResume)
	same(s, "left, resumed", got.Window, 0)
}

func windowResumed(s *scene) {
	c := s.running(sojourn.In(office), sojourn.Key("k"))
	s.finish(await(c, 20*time.Hour), sojourn.Awaiting)
	s.advance(10 * time.Hour)
	s.respond("k")
	same(s, "the purpose", s.claim().Purpose, sojourn.PurposeResume)
}

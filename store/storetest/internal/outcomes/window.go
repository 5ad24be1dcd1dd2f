package outcomes

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var windowTrials = []kit.Trial{
	{Name: "window without a run_at", Law: "A job without a run_at is ready inside its windows, else it is scheduled at their next opening; what was asked for stays readable.",
		Covers: "spec:T1 spec:T2 spec:J26 tr:N2", Run: windowNow},
	{Name: "window and run_at", Law: "A run_at inside the windows is kept, one outside is moved to the opening after it.", Covers: "spec:T3 tr:N2", Run: windowRunAt},
	{Name: "window closed at the claim", Law: "A ready job that a claim finds outside its windows is scheduled soon after their next opening, and no attempt is counted.",
		Covers: "spec:T4 tr:S2", Run: windowAtClaim},
	{Name: "window of an open attempt", Law: "A job that is put off with an open attempt goes on with it, and keeps the answer in hand.",
		Covers: "spec:T4 tr:S2 rules:B2", Run: windowOpenAttempt},
	{Name: "window and retries", Law: "Backoff, snooze and a verdict's time are moved to the next opening, from the window's end across the night.",
		Covers: "spec:T6 tr:F2 tr:F7", Run: windowRetries},
	{Name: "window in front", Law: "Jobs whose windows have closed hide nobody behind them: one claim puts all of them off and finds the open one.",
		Covers: "spec:T4 tr:S2", Run: windowInFront},
	{Name: "windows of kind, job and queue", Law: "A job starts where its own windows and those of its queue are open.",
		Covers: "spec:T1 spec:J13", Run: windowIntersection},
	{Name: "windows of a queue", Law: "A queue with closed windows starts nothing and changes no job; resumed and errored jobs go on, and a change of the windows counts at once.",
		Covers: "spec:T4 spec:T5 spec:A16", Run: windowOfQueue},
	{Name: "windows that never open", Law: "Jobs and queues whose windows do not open within five years are refused.", Covers: "spec:T1", Run: windowNever},
	{Name: "window and redrive", Law: "A job that is redriven outside its windows is scheduled at their next opening.", Covers: "tr:O3 spec:T3", Run: windowRedrive},
	{Name: "window and change", Law: "A changed run_at is moved into the windows, and changed windows move the run_at.", Covers: "spec:P9 spec:T3", Run: windowChange},
	{Name: "window and replace", Law: "A replacing job is moved into its own windows.", Covers: "tr:N6 spec:T2", Run: windowReplace},
	{Name: "stop at the window's end", Law: "A step of a policy that says so is told how long its windows stay open; one that was resumed is not.",
		Covers: "spec:T4", Run: windowEnd},
	{Name: "resumed outside the window", Law: "A response wakes a job outside its windows too: it holds its weight.", Covers: "spec:T4 tr:C3", Run: windowResumed},
}

func windowNow(s *kit.Scene) {
	asked := s.Now()
	s.State(s.Enqueue(sojourn.In(kit.Office)), sojourn.Ready)
	s.State(s.Enqueue(sojourn.In(kit.Evening, kit.Office)), sojourn.Ready)
	j := s.State(s.Enqueue(sojourn.In(kit.Evening)), sojourn.Scheduled)
	s.At("run_at", j.RunAt, asked.Add(13*time.Hour))
	s.At("orig_run_at", j.OrigRunAt, asked)
	s.Claim()
	s.Claim()
	s.Advance(13*time.Hour - time.Second)
	s.ClaimNone("a second is left")
	s.Advance(time.Second)
	kit.Same(s, "the job of the evening", s.Claim().Job.ID, j.ID)
}

func windowRunAt(s *kit.Scene) {
	inside := s.Enqueue(sojourn.In(kit.Office), sojourn.RunAt(s.Now().Add(7*time.Hour)))
	s.At("run_at inside", s.State(inside, sojourn.Scheduled).RunAt, s.Now().Add(7*time.Hour))
	end := s.Enqueue(sojourn.In(kit.Office), sojourn.Delay(8*time.Hour))
	s.At("run_at at the end", s.State(end, sojourn.Scheduled).RunAt, s.Now().Add(23*time.Hour))
	friday := s.Enqueue(sojourn.In(kit.Office), sojourn.RunAt(s.Now().Add(4*24*time.Hour+9*time.Hour)))
	j := s.State(friday, sojourn.Scheduled)
	s.At("run_at on Friday evening", j.RunAt, s.Now().Add(7*24*time.Hour-time.Hour))
	s.At("orig_run_at", j.OrigRunAt, s.Now().Add(4*24*time.Hour+9*time.Hour))
	past := s.Enqueue(sojourn.In(kit.Office), sojourn.RunAt(s.Now().Add(-2*time.Hour)))
	s.At("run_at in the past", s.State(past, sojourn.Ready).RunAt, s.Now())
}

// putOff wants a job to start soon after an opening, and no trace of the claim that has found it.
func putOff(s *kit.Scene, id sojourn.ID, opens time.Time, attempt int32) {
	s.Helper()
	j := s.State(id, sojourn.Scheduled)
	if d := j.RunAt.Sub(opens); d < 0 || d >= time.Minute {
		s.Fatalf("job %d was put off to %s, want within a minute of %s", id, j.RunAt, opens)
	}
	kit.Same(s, "attempt", j.Attempt, attempt)
	kit.Same(s, "failures and crashes", j.Failures+j.Crashes, 0)
}

func windowAtClaim(s *kit.Scene) {
	asked := s.Now()
	ids := s.EnqueueMany(20, sojourn.In(kit.Office))
	s.Advance(8 * time.Hour)
	s.ClaimNone("the windows have closed")
	starts := map[time.Time]bool{}
	for _, id := range ids {
		putOff(s, id, asked.Add(23*time.Hour), 0)
		s.At("orig_run_at", s.Get(id).OrigRunAt, asked)
		kit.Same(s, "entries of the history", len(s.History(id)), 0)
		starts[s.Get(id).RunAt] = true
	}
	if len(starts) < 15 {
		s.Fatalf("20 jobs start at %d times: they would come all at once", len(starts))
	}
	s.Advance(15 * time.Hour)
	s.Advance(time.Minute)
	kit.Same(s, "claimed the next morning", len(s.ClaimMany(kit.UpTo(30))), 20)
	s.Counters(ids[0], 1, 0, 0)
}

func windowOpenAttempt(s *kit.Scene) {
	c := s.Running(sojourn.In(kit.Office), sojourn.Key("k"))
	s.Finish(kit.Released(c), sojourn.Ready)
	s.Advance(8 * time.Hour)
	s.ClaimNone("the windows have closed")
	putOff(s, c.Job.ID, s.Now().Add(15*time.Hour), 1)
	s.Respond("k")
	s.State(c.Job.ID, sojourn.Ready) // for the handler to look at: an ordinary ready job
	s.ClaimNone("the windows are closed")
	putOff(s, c.Job.ID, s.Now().Add(15*time.Hour), 1)
	s.Advance(15*time.Hour + time.Minute)
	d := s.Claim()
	s.Counters(c.Job.ID, 1, 0, 0)
	s.ClaimedResponse(d)
	s.Finish(kit.Completed(d), sojourn.Completed)
}

func windowRetries(s *kit.Scene) {
	opens := s.Now().Add(23 * time.Hour)
	c := s.Running(sojourn.In(kit.Office), kit.Steady(9*time.Hour))
	j := s.Finish(kit.Failure(c), sojourn.Scheduled)
	s.At("the retry", j.RunAt, opens)
	c = s.Running(sojourn.In(kit.Office), kit.Steady(time.Hour))
	j = s.Finish(kit.Failure(c), sojourn.Scheduled)
	s.At("the retry inside", j.RunAt, s.Now().Add(time.Hour))
	c = s.Running(kit.OfKind("b"), sojourn.In(kit.Office))
	j = s.Finish(kit.Snooze(c, 10*time.Hour), sojourn.Scheduled)
	s.At("the end of the snooze", j.RunAt, opens)
	c = s.Running(kit.OfKind("b"), sojourn.In(kit.Office))
	o := kit.Failure(c)
	o.Verdict.RunAt = s.Now().Add(12 * time.Hour)
	s.At("the verdict's time", s.Finish(o, sojourn.Scheduled).RunAt, opens)
}

func windowInFront(s *kit.Scene) {
	ids := s.EnqueueMany(900, sojourn.In(kit.Office), sojourn.Priority(1))
	free := s.Enqueue(sojourn.Priority(2))
	s.Advance(8 * time.Hour)
	behind := s.Claim()
	kit.Same(s, "the job behind them", behind.Job.ID, free)
	s.Finish(kit.Completed(behind), sojourn.Completed)
	for _, id := range []sojourn.ID{ids[0], ids[450], ids[899]} {
		putOff(s, id, s.Now().Add(15*time.Hour), 0)
	}
	kit.Same(s, "jobs that are scheduled", s.Queue(kit.Queue).Counts[sojourn.Scheduled], 900)
	s.EnqueueMany(700, sojourn.In(kit.Office), sojourn.Priority(1), sojourn.Delay(15*time.Hour))
	s.Advance(15 * time.Hour)
	s.Sweep()
	s.Advance(9 * time.Hour)
	s.ClaimNone("nothing is open") // more than one transaction puts off
	kit.Same(s, "jobs that are ready", s.Queue(kit.Queue).Counts[sojourn.Ready], 0)
}

func windowIntersection(s *kit.Scene) {
	nine, noon := s.Now(), sojourn.Window{Start: "12:00", End: "14:00"}
	kind := sojourn.Kind[int]{Name: kit.Kind, Policy: sojourn.Policy{Windows: []sojourn.Windows{{kit.Office}}}}
	j := *kind.New(1, sojourn.In(noon))
	j.ID = s.ID()
	s.Put(j)
	s.At("run_at", s.State(j.ID, sojourn.Scheduled).RunAt, nine.Add(3*time.Hour))
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Windows: sojourn.Windows{{Start: "13:00", End: "20:00"}}})
	s.Advance(3 * time.Hour)
	s.ClaimNone("the queue is closed")
	s.State(j.ID, sojourn.Ready)
	s.Advance(time.Hour)
	kit.Same(s, "the job", s.Claim().Job.ID, j.ID)
}

func windowOfQueue(s *kit.Scene) {
	errored := s.Errored(sojourn.Key("e"))
	resumed := s.Resumed("r")
	waiting := s.EnqueueMany(3)
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Windows: sojourn.Windows{kit.Evening}})
	got := s.ClaimMany(kit.UpTo(10), kit.Deciding)
	kit.Same(s, "jobs that go on", len(got), 2)
	for _, c := range got {
		if c.Job.ID != errored.Job.ID && c.Job.ID != resumed.Job.ID {
			s.Fatalf("job %d starts, the windows of its queue are closed", c.Job.ID)
		}
		s.Report(kit.Released(c))
	}
	s.Cancel(errored.Job.ID)
	s.Cancel(resumed.Job.ID)
	s.ClaimNone("the queue is closed", kit.UpTo(10))
	for _, id := range waiting {
		kit.Same(s, "entries of the history", len(s.History(id)), 0)
		s.At("run_at", s.State(id, sojourn.Ready).RunAt, s.Now())
	}
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Windows: sojourn.Windows{kit.Evening, kit.Office}})
	first := s.Claim()
	kit.Same(s, "the first job", first.Job.ID, waiting[0])
	s.Finish(kit.Completed(first), sojourn.Completed)
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Windows: sojourn.Windows{kit.Evening}})
	s.ClaimNone("the queue is closed again")
	s.Advance(13 * time.Hour)
	second := s.Claim()
	kit.Same(s, "the second job", second.Job.ID, waiting[1])
	s.Finish(kit.Completed(second), sojourn.Completed)
	s.Advance(time.Hour)
	s.ClaimNone("the hour is over")
	s.SetQueue(kit.Queue, sojourn.QueueSettings{})
	kit.Same(s, "the third job", s.Claim().Job.ID, waiting[2])
}

func windowNever(s *kit.Scene) {
	s.SetQueue("night", sojourn.QueueSettings{Windows: sojourn.Windows{kit.Evening}})
	for what, options := range map[string][]sojourn.Option{
		"two sets of the job": {sojourn.In(kit.Office), sojourn.In(kit.Evening)},
		"job and queue":       {sojourn.In(kit.Office), sojourn.Queue("night")},
	} {
		j := s.Job(options...)
		_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
		s.Refused(err, sojourn.CodeInvalid, what)
		s.Gone(j.ID)
	}
	batch := make([]sojourn.Job, 200) // quickly: one look is enough for all that have the same windows
	for i := range batch {
		batch[i] = s.Job(sojourn.In(kit.Office), sojourn.In(kit.Evening))
	}
	batch[100] = s.Job(sojourn.In(kit.Office), sojourn.In(kit.Office, kit.Evening))
	es, err := s.Store.Enqueue(s.Ctx, batch, true)
	s.Must(err, "Enqueue in part")
	for i, e := range es {
		if i == 100 {
			s.Must(e.Err, "the one that opens")
			continue
		}
		s.Refused(e.Err, sojourn.CodeInvalid, "in part")
	}
	mondays := sojourn.Window{Days: []string{"mon"}, Start: "08:00", End: "09:00"}
	for day := s.Now(); len(mondays.Except) < 5*53; day = day.Add(7 * 24 * time.Hour) {
		mondays.Except = append(mondays.Except, day.Format(time.DateOnly))
	}
	s.Refused(sojourn.NewClient(s.Store).Queues().Set(s.Ctx, kit.Queue, sojourn.QueueSettings{Windows: sojourn.Windows{mondays}}), sojourn.CodeInvalid, "a queue that never opens")
	s.Refused(sojourn.NewClient(s.Store).Queues().Set(s.Ctx, kit.Queue, sojourn.QueueSettings{Windows: sojourn.Windows{{Start: "08:00", End: "09:00", Zone: "Mars"}}}), sojourn.CodeInvalid, "an unknown zone")
	id := s.Enqueue()
	edited, err := s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{id}}, sojourn.Edit{Action: sojourn.EditChange,
		Policy: &sojourn.Policy{Windows: []sojourn.Windows{{kit.Office}, {kit.Evening}}}})
	s.Must(err, "Edit")
	s.Refused(edited.Items[0].Err, sojourn.CodeInvalid, "a change to windows that never open")
	kit.Same(s, "windows after it", len(s.Get(id).Policy.Windows), 0)
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Windows: sojourn.Windows{kit.Evening}})
	s.State(s.Enqueue(sojourn.In(kit.Office, kit.Evening)), sojourn.Ready)
}

func windowRedrive(s *kit.Scene) {
	c := s.Running(sojourn.In(kit.Office))
	s.Finish(kit.Abort(c), sojourn.Failed)
	s.Advance(10 * time.Hour)
	j := s.Edited(c.Job.ID, kit.RedriveEdit, sojourn.Scheduled)
	s.At("run_at", j.RunAt, s.Now().Add(13*time.Hour))
	s.ClaimNone("the windows are closed")
	s.Advance(13 * time.Hour)
	kit.Same(s, "generation", s.Claim().Job.Generation, 2)
}

func windowChange(s *kit.Scene) {
	id := s.Enqueue(sojourn.In(kit.Office))
	night := s.Now().Add(12 * time.Hour)
	j := s.Change(id, sojourn.Edit{RunAt: &night}, sojourn.Scheduled)
	s.At("run_at", j.RunAt, s.Now().Add(23*time.Hour))
	now := time.Duration(0)
	s.Change(id, sojourn.Edit{Delay: &now}, sojourn.Ready)
	j = s.Change(id, sojourn.Edit{Policy: &sojourn.Policy{Windows: []sojourn.Windows{{kit.Evening}}}}, sojourn.Scheduled)
	s.At("run_at", j.RunAt, s.Now().Add(13*time.Hour))
}

func windowReplace(s *kit.Scene) {
	first := s.Enqueue(sojourn.Key("k"))
	j := s.Job(sojourn.Key("k"), sojourn.In(kit.Evening), sojourn.OnKeyConflict(sojourn.Replace))
	kit.Same(s, "replaced", s.Put(j).Replaced, true)
	s.At("run_at", s.State(first, sojourn.Scheduled).RunAt, s.Now().Add(13*time.Hour))
}

func windowEnd(s *kit.Scene) {
	stops := kit.Policy(sojourn.Policy{StopAtWindowEnd: new(true), Windows: []sojourn.Windows{{kit.Office}}})
	kit.Same(s, "left of the windows", s.Running(stops).Window, 8*time.Hour)
	kit.Same(s, "without the option", s.Running(sojourn.In(kit.Office)).Window, 0)
	kit.Same(s, "without windows", s.Running(kit.Policy(sojourn.Policy{StopAtWindowEnd: new(true)})).Window, 0)
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Windows: sojourn.Windows{{Start: "08:00", End: "09:30"}}})
	kit.Same(s, "left of the windows of the queue", s.Running(stops).Window, 30*time.Minute)
	s.Resumed("r", stops)
	got := s.Claim()
	kit.Same(s, "purpose", got.Purpose, sojourn.PurposeResume)
	kit.Same(s, "left, resumed", got.Window, 0)
}

func windowResumed(s *kit.Scene) {
	c := s.Running(sojourn.In(kit.Office), sojourn.Key("k"))
	s.Finish(kit.Await(c, 20*time.Hour), sojourn.Awaiting)
	s.Advance(10 * time.Hour)
	s.Respond("k")
	kit.Same(s, "the purpose", s.Claim().Purpose, sojourn.PurposeResume)
}

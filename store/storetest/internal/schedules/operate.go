package schedules

import (
	"crypto/sha256"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var operateTrials = []kit.Trial{
	{Name: "pause of a schedule", Law: "A paused schedule has no ticks; at the end of the pause catch_up decides, and never all run at once.",
		Covers: "spec:N6 inv:E4", Run: pauseSchedule},
	{Name: "pause of a schedule's queue", Law: "While the queue, all queues or the kind are paused, ticks wait for catch_up.", Covers: "spec:K9 inv:E4", Run: pauseQueue},
	{Name: "an edit makes no burst", Law: "An unchanged schedule keeps its next tick; a changed one has no tick in the past.", Covers: "spec:N6 inv:E4", Run: editNoBurst},
	{Name: "a declaration keeps what an operator has set", Law: "The same declaration changes nothing, another one is stored; a pause stays.",
		Covers: "spec:N6", Run: declareKeeps},
	{Name: "a schedule outlives its jobs", Law: "Cancelling a job does not stop its schedule; deleting a schedule does not stop its job.", Covers: "spec:N5", Run: outlives},
	{Name: "a schedule goes on whatever its job comes to", Law: "With each overlap the next tick makes a job after one that was cancelled, has failed or was purged.", Covers: "spec:N4 spec:N5", Run: goesOn},
	{Name: "catch_up at the end of a pause", Law: "A pause makes no burst: at its end as many of the latest ticks run as catch_up says.", Covers: "spec:N6 inv:E4", Run: pauseCatchUp},
	{Name: "run now", Law: "It makes one job at once, also during a pause, and keeps the next tick.", Covers: "spec:N6", Run: runNow},
	{Name: "run now at the time of a tick", Law: "It does not take the place of the tick, which makes a job of its own, before or after it.", Covers: "spec:N6 inv:E1", Run: runNowAtTick},
	{Name: "schedules are listed", Law: "By prefix and name, in pages, in the order of their names; a test stores nothing.", Covers: "spec:N6", Run: listed},
	{Name: "the next ticks of a queue", Law: "Peek shows the next tick of each schedule as a virtual job, and writes nothing.", Covers: "spec:O2", Run: peeked},
	{Name: "schedules are checked", Law: "A definition that is malformed or never due is refused.", Covers: "spec:N2 spec:N4", Run: checked},
	{Name: "schedules of tenants", Law: "A token sets, sees and changes only schedules into its queues.", Covers: "spec:N6", Run: tenants},
	{Name: "a schedule runs with its token's grants", Law: "They are those of the moment: a revoked token's schedule stops, and says so.", Covers: "spec:N6", Run: revoked},
	{Name: "a queue with schedules is not forgotten", Law: "ForgetQueue refuses it.", Covers: "spec:A5", Run: notForgotten},
}

func pauseSchedule(s *kit.Scene) {
	c := calls(s)
	set(s, nightly("*/10 * * * *"))
	until(s, "09:10")
	s.Must(c.Pause(s.Ctx, "nightly"), "Pause")
	s.Must(c.Pause(s.Ctx, "nightly"), "Pause again")
	kit.Same(s, "paused", get(s, "nightly").Paused, true)
	until(s, "09:45")
	ticked(s, "09:10")
	s.Must(c.Resume(s.Ctx, "nightly"), "Resume")
	s.Sweep()
	ticked(s, "09:10", "09:40")
	counts(s, 2, 2)
	until(s, "09:50")
	ticked(s, "09:10", "09:40", "09:50")
	s.Is(c.Pause(s.Ctx, "other"), sojourn.ErrNotFound, "Pause of a schedule that is not there")
}

func pauseQueue(s *kit.Scene) {
	queues := sojourn.NewClient(s.Store).Queues()
	s.SetQueue(kit.Queue, sojourn.QueueSettings{})
	d := nightly("*/10 * * * *")
	d.CatchUp = 2
	set(s, d)
	had := 0
	for _, p := range []struct {
		queue string
		kinds []string
	}{{kit.Queue, nil}, {kit.Queue, []string{kit.Kind}}, {sojourn.AllQueues, nil}} {
		s.Must(queues.Pause(s.Ctx, p.queue, p.kinds...), "Pause")
		for range 7 {
			s.Advance(5 * time.Minute)
			s.Sweep()
		}
		kit.Same(s, "jobs during the pause", len(made(s, "nightly")), had)
		s.Must(queues.Resume(s.Ctx, p.queue, p.kinds...), "Resume")
		s.Sweep()
		had += 2
		kit.Same(s, "jobs after the pause", len(made(s, "nightly")), had)
		finishAll(s)
	}
	s.Must(queues.Pause(s.Ctx, kit.Queue, "other"), "Pause")
	s.Advance(10 * time.Minute)
	s.Sweep()
	kit.Same(s, "jobs during the pause of another kind", len(made(s, "nightly")), had+1)
}

func editNoBurst(s *kit.Scene) {
	first := set(s, nightly("0 12 * * *"))
	s.Advance(30 * time.Minute)
	again := set(s, nightly("0 12 * * *"))
	kit.Same(s, "revision of an unchanged schedule", again.Revision, first.Revision)
	s.At("its next tick", again.Next[0], first.Next[0])
	every := schedule.Schedule{Name: "nightly", Every: 20 * time.Minute, Offset: time.Minute, Job: sojourn.NewJob(kit.Kind, nil)}
	set(s, every)
	until(s, "10:30") // 09:41, 10:01 and 10:21 are due, and not handled yet
	s.Advance(0)
	ticked(s, "10:21")
	s.Advance(2 * time.Hour)
	changed := set(s, nightly("*/5 * * * *")) // nothing of the past
	s.Sweep()
	ticked(s, "10:21")
	s.At("the next tick", changed.Next[0], s.Now().Add(5*time.Minute))
	until(s, "12:35")
	ticked(s, "10:21", "12:35")
	s.Advance(12 * time.Minute) // 12:40 and 12:45 are due
	other := nightly("*/5 * * * *", sojourn.Priority(7))
	kit.Same(s, "revision", set(s, other).Revision, changed.Revision+1)
	s.Sweep()
	ticked(s, "10:21", "12:35", "12:45") // another job keeps the ticks
	kit.Same(s, "priority", made(s, "nightly")[2].Priority, 7)
}

func declareKeeps(s *kit.Scene) {
	c := calls(s)
	declare := func(cron string) schedule.Schedule {
		s.Helper()
		d, err := c.Declare(s.Ctx, nightly(cron))
		s.Must(err, "Declare")
		return d
	}
	declare("0 1 * * *")
	set(s, nightly("0 2 * * *"))
	s.Must(c.Pause(s.Ctx, "nightly"), "Pause")
	d := declare("0 1 * * *")
	kit.Same(s, "cron after the same declaration", d.Cron, "0 2 * * *")
	kit.Same(s, "paused", d.Paused, true)
	d = declare("0 3 * * *")
	kit.Same(s, "cron after another declaration", d.Cron, "0 3 * * *")
	kit.Same(s, "paused", d.Paused, true)
	s.Advance(48 * time.Hour)
	s.Sweep()
	ticked(s)
}

func outlives(s *kit.Scene) {
	set(s, nightly("*/10 * * * *"))
	until(s, "09:10")
	s.Cancel(made(s, "nightly")[0].ID)
	until(s, "09:20")
	ticked(s, "09:10", "09:20")
	running := s.Claim()
	s.Must(calls(s).Delete(s.Ctx, "nightly"), "Delete")
	s.Is(calls(s).Delete(s.Ctx, "nightly"), sojourn.ErrNotFound, "Delete again")
	until(s, "09:20")
	s.Finish(sojourn.Outcome{Lease: running.Lease, Type: sojourn.OutcomeCompleted}, sojourn.Completed)
	until(s, "09:50")
	ticked(s, "09:10", "09:20")
}

func goesOn(s *kit.Scene) {
	ends := map[string]func(s *kit.Scene, id sojourn.ID){
		"cancelled before it runs": func(s *kit.Scene, id sojourn.ID) { s.Cancel(id) },
		"cancelled while it runs":  func(s *kit.Scene, id sojourn.ID) { s.Claim(kit.Leased(time.Hour)); s.Cancel(id) },
		"failed":                   func(s *kit.Scene, id sojourn.ID) { s.Finish(kit.Abort(s.Claim()), sojourn.Failed) },
		"purged": func(s *kit.Scene, id sojourn.ID) {
			s.Cancel(id)
			s.Advance(sojourn.IDLife + time.Second)
			s.Edit(id, sojourn.Edit{Action: sojourn.EditPurge})
		},
	}
	for _, o := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueue, schedule.OverlapCancelPrevious} {
		for what, end := range kit.InOrder(ends) {
			again(s)
			d := nightly("0 * * * *")
			d.Overlap = o
			set(s, d)
			until(s, "10:00")
			end(s, made(s, "nightly")[0].ID)
			for _, clock := range []string{"11:00", "12:00"} {
				until(s, clock)
				jobs := made(s, "nightly")
				if len(jobs) == 0 || jobs[len(jobs)-1].ScheduledFor.UTC().Format("15:04") != clock {
					s.Fatalf("overlap %s, a job that was %s: the tick at %s made no job", o, what, clock)
				}
				finishAll(s)
			}
		}
	}
}

func pauseCatchUp(s *kit.Scene) {
	for _, p := range []struct {
		catchUp int
		want    string
	}{{schedule.NoCatchUp, "09:10"}, {0, "09:10 10:00"}, {1, "09:10 10:00"}, {3, "09:10 09:40 09:50 10:00"}, {schedule.MaxCatchUp, "09:10 09:20 09:30 09:40 09:50 10:00"}} {
		again(s)
		c := calls(s)
		d := nightly("*/10 * * * *")
		d.CatchUp = p.catchUp
		set(s, d)
		until(s, "09:10")
		s.Must(c.Pause(s.Ctx, "nightly"), "Pause")
		until(s, "10:05")
		ticked(s, "09:10")
		edited := nightly("*/10 * * * *", sojourn.Priority(3)) // an edit during a pause neither ends it nor loses ticks
		edited.CatchUp = p.catchUp
		kit.Same(s, "paused after an edit", set(s, edited).Paused, true)
		s.Sweep()
		ticked(s, "09:10")
		s.Must(c.Resume(s.Ctx, "nightly"), "Resume")
		s.Sweep()
		ticked(s, strings.Fields(p.want)...)
		until(s, "10:10")
		ticked(s, append(strings.Fields(p.want), "10:10")...)
	}
}

func runNow(s *kit.Scene) {
	c := calls(s)
	d := nightly("*/10 * * * *")
	d.Overlap = schedule.OverlapSkip
	set(s, d)
	s.Must(c.Pause(s.Ctx, "nightly"), "Pause")
	s.Advance(time.Minute)
	s.Advance(250 * time.Millisecond)
	for i := range 2 {
		id, err := c.RunNow(s.Ctx, "nightly")
		s.Must(err, "RunNow")
		j := s.State(id, sojourn.Ready)
		kit.Same(s, "schedule", j.Schedule, "nightly")
		s.At("scheduled_for", j.ScheduledFor, s.Now().Add(time.Duration(i)*time.Microsecond))
	}
	s.Must(c.Resume(s.Ctx, "nightly"), "Resume")
	finishAll(s)
	until(s, "09:10")
	ticked(s, "09:01", "09:01", "09:10")
	_, err := c.RunNow(s.Ctx, "other")
	s.Is(err, sojourn.ErrNotFound, "RunNow of a schedule that is not there")
}

func runNowAtTick(s *kit.Scene) {
	c := calls(s)
	d := nightly("*/10 * * * *")
	set(s, d)
	runNow := func() {
		s.Helper()
		_, err := c.RunNow(s.Ctx, "nightly")
		s.Must(err, "RunNow")
	}
	s.Advance(10 * time.Minute) // the tick has come, and is not handled yet
	runNow()
	runNow()
	s.Sweep()
	ticked(s, "09:10", "09:10", "09:10")
	counts(s, 3, 0)
	once(s, made(s, "nightly"))
	s.Advance(10 * time.Minute)
	s.Sweep()
	runNow()
	ticked(s, "09:10", "09:10", "09:10", "09:20", "09:20")
	counts(s, 5, 0)
	once(s, made(s, "nightly"))
	s.Advance(20 * time.Minute) // two ticks wait; the job of the run has the time of the later one
	d.CatchUp = 2
	set(s, d)
	together(s, 1, sweep(s), sweep(s), func() error { _, err := c.RunNow(s.Ctx, "nightly"); return err },
		func() error { _, err := c.RunNow(s.Ctx, "nightly"); return err })
	s.Sweep()
	counts(s, 9, 0)
	once(s, made(s, "nightly"))
}

func listed(s *kit.Scene) {
	c := calls(s)
	for _, name := range []string{"b1", "a", "b2", "c"} {
		d := nightly("@daily")
		d.Name = name
		set(s, d)
	}
	names := func(prefix string) string {
		s.Helper()
		var out []string
		for d, err := range c.All(s.Ctx, prefix) {
			s.Must(err, "All")
			out = append(out, d.Name)
		}
		return strings.Join(out, " ")
	}
	kit.Same(s, "all", names(""), "a b1 b2 c")
	kit.Same(s, "with b", names("b"), "b1 b2")
	kit.Same(s, "with x", names("x"), "")
	page, err := s.Store.(schedule.Store).Schedules(s.Ctx, "", "a", 2)
	s.Must(err, "Schedules")
	kit.Same(s, "page", page[0].Name+" "+page[1].Name, "b1 b2")
	_, err = c.Get(s.Ctx, "x")
	s.Is(err, sojourn.ErrNotFound, "Get of a schedule that is not there")
	d := nightly("30 2 * * 1-5")
	d.Name, d.Zone = "tested", "Europe/Berlin"
	got, err := c.Test(s.Ctx, d)
	s.Must(err, "Test")
	kit.Same(s, "sentence", got.Text, "on Monday to Friday at 02:30, Europe/Berlin")
	kit.Same(s, "next ticks", len(got.Next), 5)
	_, err = c.Get(s.Ctx, "tested")
	s.Is(err, sojourn.ErrNotFound, "Get of a schedule that was tested")
}

func peeked(s *kit.Scene) {
	id := s.Enqueue()
	set(s, nightly("0 12 * * *"))
	sooner := nightly("0 11 * * *")
	sooner.Name = "sooner"
	set(s, sooner)
	elsewhere := nightly("0 11 * * *", sojourn.Queue("other"))
	elsewhere.Name = "elsewhere"
	set(s, elsewhere)
	paused := nightly("0 11 * * *")
	paused.Name = "paused"
	set(s, paused)
	s.Must(calls(s).Pause(s.Ctx, "paused"), "Pause")
	before, err := s.Store.Status(s.Ctx)
	s.Must(err, "Status")
	jobs, err := sojourn.NewClient(s.Store).Jobs().Peek(s.Ctx, kit.Queue, 10)
	s.Must(err, "Peek")
	var got []string
	for _, j := range jobs {
		got = append(got, j.ID.String()+" "+j.Schedule)
	}
	kit.Same(s, "peeked", strings.Join(got, ", "), id.String()+" , 0 sooner, 0 nightly")
	kit.Same(s, "virtual", jobs[1].Virtual && jobs[2].Virtual && !jobs[0].Virtual, true)
	s.At("its time", jobs[1].ScheduledFor, time.Date(2026, 3, 2, 11, 0, 0, 0, time.UTC))
	after, err := s.Store.Status(s.Ctx)
	s.Must(err, "Status")
	kit.Same(s, "commits", after.Commits, before.Commits)
	jobs, err = sojourn.NewClient(s.Store).Jobs().Peek(s.Ctx, kit.Queue, 1)
	s.Must(err, "Peek")
	kit.Same(s, "peeked with the limit 1", len(jobs), 1)
}

func checked(s *kit.Scene) {
	for field, change := range map[string]func(d *schedule.Schedule){
		"name": func(d *schedule.Schedule) { d.Name = "a b" }, "cron": func(d *schedule.Schedule) { d.Cron = "60 * * * *" },
		"zone": func(d *schedule.Schedule) { d.Zone = "Mars/Olympus" }, "every": func(d *schedule.Schedule) { d.Cron, d.Every = "", time.Millisecond },
		"offset": func(d *schedule.Schedule) { d.Offset = time.Second }, "jitter": func(d *schedule.Schedule) { d.Jitter = -1 },
		"end": func(d *schedule.Schedule) { d.Start, d.End = s.Now(), s.Now().Add(-time.Hour) }, "catch_up": func(d *schedule.Schedule) { d.CatchUp = -2 },
		"overlap": func(d *schedule.Schedule) { d.Overlap = "maybe" }, "job": func(d *schedule.Schedule) { d.Job = nil },
		"job.run_at": func(d *schedule.Schedule) { d.Job.Delay = time.Hour }, "job.id": func(d *schedule.Schedule) { d.Job.ID = 7 },
		"kind": func(d *schedule.Schedule) { d.Job.Kind = "" },
	} {
		d := nightly("@daily")
		change(&d)
		_, err := calls(s).Set(s.Ctx, d)
		if e := s.Refused(err, sojourn.CodeInvalid, field); e.Field != field {
			s.Fatalf("the field of %v is %s, want %s", e, e.Field, field)
		}
	}
	_, err := calls(s).Set(s.Ctx, nightly("0 0 30 2 *"))
	s.Refused(err, sojourn.CodeInvalid, "a schedule that is never due")
}

// grants for the jobs of a queue.
func grants(queue string) access.Grant {
	return access.Grant{Verbs: []access.Verb{access.VerbEnqueue, access.VerbRead, access.VerbOperate}, Queue: queue}
}

func tenants(s *kit.Scene) {
	calls(s)
	alice, bob := s.Tenant("alice", grants("a")), s.Tenant("bob", grants("b"))
	set(alice, nightly("@daily", sojourn.Queue("a")))
	kit.Same(s, "owner", get(s, "nightly").Owner, "alice")
	kit.Same(s, "args without the verb for them", len(get(alice, "nightly").Job.Args), 0)
	_, err := calls(alice).Set(alice.Ctx, nightly("@daily", sojourn.Queue("b")))
	s.Refused(err, "insufficient_scope", "a schedule into another queue")
	_, err = calls(bob).Get(bob.Ctx, "nightly")
	s.Is(err, sojourn.ErrNotFound, "Get of a schedule of others")
	for d := range calls(bob).All(bob.Ctx, "") {
		s.Fatalf("bob sees %s", d.Name)
	}
	s.Is(calls(bob).Delete(bob.Ctx, "nightly"), sojourn.ErrNotFound, "Delete of a schedule of others")
	s.Is(calls(bob).Pause(bob.Ctx, "nightly"), sojourn.ErrNotFound, "Pause of a schedule of others")
	_, err = calls(bob).RunNow(bob.Ctx, "nightly")
	s.Is(err, sojourn.ErrNotFound, "RunNow of a schedule of others")
	_, err = calls(bob).Set(bob.Ctx, nightly("@daily", sojourn.Queue("b")))
	s.Is(err, sojourn.ErrConflict, "Set in the place of a schedule of others")
	jobs, err := bob.Store.Find(bob.Ctx, sojourn.Filter{Queue: "b", Next: true, Limit: 5})
	s.Must(err, "Find")
	kit.Same(s, "peeked by bob", len(jobs), 0)
	s.Must(calls(alice).Delete(alice.Ctx, "nightly"), "Delete")
}

func revoked(s *kit.Scene) {
	keeper := s.Keeper()
	hash := sha256.Sum256([]byte("secret"))
	token := access.Token{ID: "alice", Name: "alice", Hash: hash[:], ExpiresAt: s.Now().Add(24 * time.Hour), Grants: []access.Grant{grants(kit.Queue)}}
	store := func() { s.Helper(); s.Must(keeper.SetAccessToken(s.Ctx, token), "SetAccessToken") }
	store()
	alice := s.Tenant("alice", grants(kit.Queue))
	set(alice, nightly("*/10 * * * *"))
	until(s, "09:10")
	ticked(s, "09:10")
	token.RevokedAt = s.Now()
	store()
	until(s, "09:25")
	ticked(s, "09:10")
	if p := get(s, "nightly").Problem; !strings.Contains(p, "alice") || !strings.Contains(p, "revoked") {
		s.Fatalf("the problem is %q", p)
	}
	token.RevokedAt, token.Grants = time.Time{}, []access.Grant{grants("other")}
	store()
	until(s, "09:35")
	ticked(s, "09:10")
	if p := get(s, "nightly").Problem; !strings.Contains(p, "no grant") {
		s.Fatalf("the problem is %q", p)
	}
	token.Grants = []access.Grant{grants("def*")}
	store()
	until(s, "09:45")
	ticked(s, "09:10", "09:40")
	kit.Same(s, "problem", get(s, "nightly").Problem, "")
	s.Advance(24 * time.Hour)
	s.Sweep()
	ticked(s, "09:10", "09:40")
	set(s, nightly("*/10 * * * *", sojourn.Priority(3))) // now the application's own
	s.Sweep()
	s.Advance(10 * time.Minute)
	s.Sweep()
	if n := len(made(s, "nightly")); n < 3 {
		s.Fatalf("%d jobs after the schedule was set without a token", n)
	}
}

func notForgotten(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{})
	set(s, nightly("@daily"))
	s.Is(s.Forget(kit.Queue), sojourn.ErrConflict, "ForgetQueue of a queue with a schedule")
	s.Must(calls(s).Delete(s.Ctx, "nightly"), "Delete")
	s.Must(s.Forget(kit.Queue), "ForgetQueue")
}

package schedules

import (
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var tickTrials = []kit.Trial{
	{Name: "a tick makes one job", Law: "Each tick makes one job at its time and not before, which names the schedule and the nominal time.",
		Covers: "spec:N1 spec:N3 spec:J25 inv:E1 inv:E2", Run: tickMakesJob},
	{Name: "ticks over a clock change", Law: "A time in the gap is one tick at its end, one in the repeated hour one tick at the first.",
		Covers: "spec:N2 inv:E3", Run: tickOverClockChange},
	{Name: "missed ticks", Law: "After an outage as many of the latest ticks become jobs as catch_up says.", Covers: "spec:N4 spec:N5 inv:E4", Run: missedTicks},
	{Name: "millions of missed ticks", Law: "A schedule that is far behind makes the latest ticks, at a bounded cost.", Covers: "inv:E4", Run: farBehind},
	{Name: "a tick while the job before it lives", Law: "overlap says whether the tick makes a job, waits, or cancels the one before.", Covers: "spec:N4", Run: overlap},
	{Name: "a waiting tick runs after the job before it", Law: "With overlap queue the ticks of catch_up run one after the other.", Covers: "spec:N4", Run: overlapQueues},
	{Name: "a tick that meets a live key", Law: "It is skipped, and the schedule goes on.", Covers: "rules:F6", Run: tickMeetsKey},
	{Name: "a tick is not refused by a full queue", Law: "max_depth does not refuse the job of a tick.", Covers: "rules:F6", Run: tickOfFullQueue},
	{Name: "jitter, start and end", Law: "Jitter delays the job and not its tick; no tick is before start or after end.", Covers: "spec:N6", Run: jitterStartEnd},
	{Name: "a schedule that is deleted and set again", Law: "It goes on with the next tick, and makes none twice.", Covers: "inv:E1", Run: setAgain},
}

func tickMakesJob(s *kit.Scene) {
	d := set(s, nightly("*/10 * * * *", sojourn.Queue("reports"), sojourn.Tags("night"), sojourn.Weight(0), sojourn.Meta("a", "b")))
	kit.Same(s, "sentence", d.Text, "every 10 minutes, UTC")
	kit.Same(s, "next ticks", len(d.Next), 5)
	s.At("the first", d.Next[0], s.Now().Add(10*time.Minute))
	s.Advance(10*time.Minute - time.Microsecond)
	s.Sweep()
	ticked(s)
	s.Advance(time.Microsecond)
	kit.Same(s, "schedules that were handled", s.Sweep().Ticks, 1)
	ticked(s, "09:10")
	j := s.Get(made(s, "nightly")[0].ID)
	kit.Same(s, "args", string(j.Args), `{"n":1}`)
	kit.Same(s, "queue", j.Queue, "reports")
	kit.Same(s, "tags", strings.Join(j.Tags, " "), "night")
	kit.Same(s, "weight", j.Weight, 0)
	kit.Same(s, "state", j.State, sojourn.Ready)
	s.At("created_at", j.CreatedAt, s.Now())
	s.At("scheduled_for", j.ScheduledFor, s.Now())
	kit.Same(s, "schedules that were handled at the same time again", s.Sweep().Ticks, 0)
	d = get(s, "nightly")
	kit.Same(s, "last job", d.LastJob, j.ID)
	s.At("last tick", d.LastTick, j.ScheduledFor)
	s.At("next tick", d.Next[0], s.Now().Add(10*time.Minute))
	until(s, "09:20")
	until(s, "09:30")
	ticked(s, "09:10", "09:20", "09:30")
	counts(s, 3, 0)
	plain := s.Get(s.Enqueue())
	kit.Same(s, "schedule of another job", plain.Schedule, "")
}

func tickOverClockChange(s *kit.Scene) {
	d := nightly("30 2 * * *")
	d.Zone = "Europe/Berlin"
	kit.Same(s, "sentence", set(s, d).Text, "every day at 02:30, Europe/Berlin")
	for _, night := range []struct {
		from time.Time
		want string
	}{
		{time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC), "29T01:00:00 30T00:30:00"},
		{time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC), "25T00:30:00 26T01:30:00"},
	} {
		s.Advance(night.from.Sub(s.Now()))
		s.Sweep()
		had := len(made(s, "nightly"))
		for range 40 * 4 {
			s.Advance(15 * time.Minute)
			s.Sweep()
		}
		var got []string
		for _, j := range made(s, "nightly")[had:] {
			got = append(got, j.ScheduledFor.UTC().Format("02T15:04:05"))
		}
		kit.Same(s, "ticks from "+night.from.Format(time.DateOnly), strings.Join(got, " "), night.want)
	}
}

func missedTicks(s *kit.Scene) {
	for _, c := range []struct {
		catchUp int
		want    string
	}{{0, "10:00"}, {1, "10:00"}, {3, "09:40 09:50 10:00"}, {100, "09:10 09:20 09:30 09:40 09:50 10:00"}, {schedule.NoCatchUp, ""}} {
		again(s)
		d := nightly("*/10 * * * *")
		d.CatchUp = c.catchUp
		set(s, d)
		until(s, "10:05")
		want := strings.Fields(c.want)
		ticked(s, want...)
		counts(s, int64(len(want)), int64(6-len(want)))
		until(s, "10:10")
		ticked(s, append(want, "10:10")...)
	}
}

func farBehind(s *kit.Scene) {
	set(s, schedule.Schedule{Name: "nightly", Every: time.Second, CatchUp: 2, Job: sojourn.NewJob(kit.Kind, nil)})
	s.Advance(100 * 24 * time.Hour)
	s.Sweep()
	jobs := made(s, "nightly")
	kit.Same(s, "jobs", len(jobs), 2)
	s.At("the latest", jobs[1].ScheduledFor, s.Now())
	s.At("the one before", jobs[0].ScheduledFor, s.Now().Add(-time.Second))
	s.Advance(time.Second)
	s.Sweep()
	kit.Same(s, "jobs a second later", len(made(s, "nightly")), 3)
}

func overlap(s *kit.Scene) {
	for _, c := range []struct {
		overlap schedule.Overlap
		want    []string
		runs    int64
		states  string
	}{
		{"", []string{"09:10", "09:20"}, 2, "running ready"},
		{schedule.OverlapAllow, []string{"09:10", "09:20"}, 2, "running ready"},
		{schedule.OverlapSkip, []string{"09:10"}, 1, "running"},
		{schedule.OverlapQueue, []string{"09:10"}, 1, "running"},
		{schedule.OverlapCancelPrevious, []string{"09:10", "09:20"}, 2, "cancelled ready"},
	} {
		again(s)
		d := nightly("*/10 * * * *")
		d.Overlap = c.overlap
		set(s, d)
		until(s, "09:10")
		first := s.Claim(kit.Leased(time.Hour))
		until(s, "09:20")
		ticked(s, c.want...)
		var states []string
		for _, j := range made(s, "nightly") {
			states = append(states, j.State.String())
		}
		kit.Same(s, "states with overlap "+string(c.overlap), strings.Join(states, " "), c.states)
		kit.Same(s, "runs", get(s, "nightly").Runs, c.runs)
		if c.overlap == schedule.OverlapCancelPrevious {
			s.Reports(sojourn.Outcome{Lease: first.Lease, Type: sojourn.OutcomeCompleted}, "lost")
			continue
		}
		s.Finish(sojourn.Outcome{Lease: first.Lease, Type: sojourn.OutcomeCompleted}, sojourn.Completed)
		finishAll(s)
		until(s, "09:30")
		kit.Same(s, "the last tick with a job", made(s, "nightly")[len(made(s, "nightly"))-1].ScheduledFor.Format("15:04"), "09:30")
	}
}

func overlapQueues(s *kit.Scene) {
	d := nightly("*/10 * * * *")
	d.Overlap, d.CatchUp = schedule.OverlapQueue, 2
	set(s, d)
	until(s, "09:10")
	first := s.Claim(kit.Leased(time.Hour))
	until(s, "09:45") // 09:20, 09:30 and 09:40 wait; two of them run
	ticked(s, "09:10")
	s.Finish(sojourn.Outcome{Lease: first.Lease, Type: sojourn.OutcomeCompleted}, sojourn.Completed)
	for range 60 { // it looks again after a tenth of the time that it has waited
		s.Advance(5 * time.Second)
		s.Sweep()
	}
	ticked(s, "09:10", "09:30")
	finishAll(s)
	s.Advance(10 * time.Second)
	s.Sweep()
	ticked(s, "09:10", "09:30", "09:40")
	counts(s, 3, 1)
}

func tickMeetsKey(s *kit.Scene) {
	set(s, nightly("*/10 * * * *", sojourn.Key("report")))
	until(s, "09:10")
	until(s, "09:20")
	ticked(s, "09:10")
	counts(s, 1, 1)
	finishAll(s)
	until(s, "09:30")
	ticked(s, "09:10", "09:30")
}

func tickOfFullQueue(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{MaxDepth: 1})
	s.Enqueue()
	set(s, nightly("*/10 * * * *"))
	until(s, "09:10")
	ticked(s, "09:10")
}

func jitterStartEnd(s *kit.Scene) {
	d := nightly("*/10 * * * *")
	d.Jitter, d.Start, d.End = 5*time.Minute, s.Now().Add(20*time.Minute), s.Now().Add(40*time.Minute)
	out := set(s, d)
	kit.Same(s, "next ticks", len(out.Next), 3)
	delays := map[time.Duration]bool{}
	for _, clock := range []string{"09:10", "09:20", "09:30", "09:40", "09:50", "10:00"} {
		until(s, clock)
	}
	ticked(s, "09:20", "09:30", "09:40")
	for _, j := range made(s, "nightly") {
		delay := j.RunAt.Sub(j.ScheduledFor)
		if delay < 0 || delay >= d.Jitter {
			s.Fatalf("the job of %s runs at %s", j.ScheduledFor, j.RunAt)
		}
		delays[delay] = true
	}
	if len(delays) < 2 {
		s.Fatalf("all jobs have the same jitter: %v", delays)
	}
	kit.Same(s, "next ticks after the end", len(get(s, "nightly").Next), 0)
	ended := nightly("*/10 * * * *")
	ended.Name, ended.End = "ended", s.Now().Add(-time.Hour)
	_, err := calls(s).Set(s.Ctx, ended)
	s.Refused(err, sojourn.CodeInvalid, "a schedule that has ended")
}

func setAgain(s *kit.Scene) {
	set(s, nightly("*/10 * * * *"))
	until(s, "09:10")
	s.Must(calls(s).Delete(s.Ctx, "nightly"), "Delete")
	set(s, nightly("*/10 * * * *"))
	until(s, "09:10")
	until(s, "09:20")
	ticked(s, "09:10", "09:20")
	counts(s, 1, 0)
}

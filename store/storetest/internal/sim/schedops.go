package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/model"
)

// Schedules are not in the model. Their jobs have a queue and a kind of their own, and after each
// sweep the rows are checked: one job a tick, none before its time or during a pause, all ticks
// counted, catch_up and overlap kept.
const (
	tickQueue = "ticks"
	tickKind  = "tick"
)

// planned is a stored schedule, with what the run knows of its ticks.
type planned struct {
	def           schedule.Schedule
	paused        bool
	next          time.Time // the first tick that is not decided
	runs, skipped int64     // as the store counts them
}

// scheduler carries out operations of schedules and checks their rows.
type scheduler struct{ *run }

// ticking is what a run knows of schedules.
type ticking struct {
	plans map[string]*planned
	seen  map[sojourn.ID]bool // the jobs of schedules
}

func (r actor) scheduleSome() {
	keeper, ok := r.store.Store.(schedule.Store)
	if !ok {
		return
	}
	name := oneOf(r.dice, "s1", "s2", "s3")
	p, s := r.ticking.plans[name], scheduler(r)
	switch way := r.n(100); {
	case p == nil || way < 30:
		s.setSchedule(keeper, name)
	case way < 45:
		s.changeSchedule(keeper, name, oneOf(r.dice, schedule.ActionPause, schedule.ActionResume, schedule.ActionResume))
	case way < 58:
		s.changeSchedule(keeper, name, schedule.ActionRun)
	case way < 63:
		s.changeSchedule(keeper, name, schedule.ActionDelete)
	default:
		s.workTicks(1 + r.n(3))
	}
	if r.chance(60) {
		r.advance(r.between(time.Second, 3*time.Minute))
		r.sweep(1000)
	}
}

func (r scheduler) setSchedule(keeper schedule.Store, name string) {
	d := schedule.Schedule{Name: name, Every: oneOf(r.dice, 30*time.Second, time.Minute, 7*time.Minute), Offset: oneOf(r.dice, 0, 0, 13*time.Second),
		CatchUp: oneOf(r.dice, 0, 1, 3, schedule.NoCatchUp),
		Overlap: oneOf(r.dice, schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueue, schedule.OverlapCancelPrevious),
		Job:     sojourn.NewJob(tickKind, []byte("{}"), sojourn.Queue(tickQueue))}
	r.tick()
	got, err := keeper.SetSchedule(r.ctx, d, schedule.ModeSet)
	r.say("SetSchedule %s every %v after %v, catch up %d, overlap %s → %v", name, d.Every, d.Offset, d.CatchUp, d.Overlap, err)
	if err != nil {
		r.fail("SetSchedule %s: %v", name, err)
	}
	was := r.ticking.plans[name]
	p := &planned{def: d, runs: got.Runs, skipped: got.Skipped, paused: got.Paused}
	if was != nil && was.def.SameTicks(&d) {
		p.next = was.next
	} else if ticks, err := d.Ticks(time.UnixMicro(max(r.m.Now, model.Micros(got.LastTick))), 1); err == nil {
		p.next = ticks[0]
	}
	if was != nil && (was.runs != p.runs || was.skipped != p.skipped || was.paused != p.paused) || was == nil && (p.runs > 0 || p.paused) {
		r.fail("SetSchedule %s has made jobs, or ended a pause: %d runs, %d skipped, paused %v", name, got.Runs, got.Skipped, got.Paused)
	}
	r.ticking.plans[name] = p
}

func (r scheduler) changeSchedule(keeper schedule.Store, name string, a schedule.Action) {
	r.tick()
	got, err := keeper.ChangeSchedule(r.ctx, name, a)
	r.say("ChangeSchedule %s %s → job %d, %v", a, name, got.LastJob, err)
	if err != nil {
		r.fail("ChangeSchedule %s %s: %v", a, name, err)
	}
	p := r.ticking.plans[name]
	switch a {
	case schedule.ActionRun:
		if p.runs++; r.ticking.seen[got.LastJob] || got.Runs != p.runs {
			r.fail("schedule %s was to run once, has the job %d, and counts %d runs, want %d", name, got.LastJob, got.Runs, p.runs)
		}
		r.ticking.seen[got.LastJob] = true
	case schedule.ActionDelete:
		delete(r.ticking.plans, name)
	default:
		p.paused = got.Paused
	}
}

// workTicks completes jobs of schedules.
func (r scheduler) workTicks(most int) {
	attempt(r.run, fmt.Sprintf("Claim %d jobs of schedules", most), r.fault(),
		func() int { model.Sweeps(r.m).SweepDue(100); return 0 },
		func() (int, error) {
			jobs, err := r.store.Claim(r.ctx, driver.ClaimRequest{Worker: "ticker", Queues: []string{tickQueue}, Kinds: []string{tickKind}, Max: most, Capacity: roomy, Lease: time.Minute})
			for _, c := range jobs {
				if err == nil {
					_, err = r.store.Finish(r.ctx, []sojourn.Outcome{{Lease: c.Lease, Type: sojourn.OutcomeCompleted}})
				}
			}
			return 0, err
		}, nil, func(int, int) string { return "" })
}

// tickJobs reads the jobs of schedules.
func (r scheduler) tickJobs() (jobs []sojourn.Job) {
	for after := ""; ; after = jobs[len(jobs)-1].ID.String() {
		page, err := r.store.Find(r.ctx, sojourn.Filter{Queue: tickQueue, After: after, Limit: sojourn.MaxFind, Full: true})
		if err != nil {
			r.fail("Find the jobs of schedules: %v", err)
		}
		if jobs = append(jobs, page...); len(page) == 0 {
			return jobs
		}
	}
}

// ticksAre checks the ticks after a call. swept says that it was a sweep, executed without a fault.
func (r scheduler) ticksAre(swept bool) {
	keeper, ok := r.store.Store.(schedule.Store)
	if !ok || len(r.ticking.plans) == 0 && len(r.ticking.seen) == 0 {
		return
	}
	r.tick()
	stored, err := keeper.Schedules(r.ctx, "", "", 0)
	if err != nil || len(stored) != len(r.ticking.plans) {
		r.fail("Schedules: %v, and %d of %d", err, len(stored), len(r.ticking.plans))
	}
	made, live := map[string][]sojourn.Job{}, map[string]int{}
	for _, j := range r.tickJobs() {
		switch {
		case !r.ticking.seen[j.ID]:
			made[j.Schedule] = append(made[j.Schedule], j)
		case j.State.Live():
			live[j.Schedule]++
		}
		r.ticking.seen[j.ID] = true
	}
	for name := range made {
		if r.ticking.plans[name] == nil {
			r.fail("a schedule %s that does not exist has made a job (inv:E1)", name)
		}
	}
	for _, s := range stored {
		p := r.ticking.plans[s.Name]
		if d := p.check(&s, made[s.Name], live[s.Name], time.UnixMicro(r.m.Now), swept); d != "" {
			r.fail("schedule %s, every %v after %v, catch up %d, overlap %s: %s", s.Name, s.Every, s.Offset, s.CatchUp, s.Overlap, d)
		}
	}
}

// check compares a schedule with the jobs that it has made since the last check. live is the number
// of its older jobs that have not ended. The result says which rule is broken; "" for none.
func (p *planned) check(s *schedule.Schedule, made []sojourn.Job, live int, now time.Time, swept bool) string {
	most := 1
	if s.Overlap == schedule.OverlapAllow {
		most = max(s.CatchUp, 1)
	}
	handled := int64(0)
	if !s.LastTick.Before(p.next) {
		handled = int64(s.LastTick.Sub(p.next)/s.Every) + 1
	}
	runs, skipped := s.Runs-p.runs, s.Skipped-p.skipped
	from, to := p.next, p.next.Add(time.Duration(handled)*s.Every)
	p.next, p.runs, p.skipped = to, s.Runs, s.Skipped
	slices.SortFunc(made, func(a, b sojourn.Job) int { return a.ScheduledFor.Compare(b.ScheduledFor) })
	for i, j := range made {
		tick := j.ScheduledFor
		switch {
		case tick.Before(from) || !tick.Before(to) || tick.Sub(from)%s.Every != 0:
			return fmt.Sprintf("job %d is for %v, which is no tick from %v to %v (inv:E4)", j.ID, tick, from, to)
		case i > 0 && tick.Equal(made[i-1].ScheduledFor):
			return fmt.Sprintf("jobs %d and %d are for one tick, %v (inv:E1)", made[i-1].ID, j.ID, tick)
		case s.CatchUp == schedule.NoCatchUp && now.Sub(to.Add(-s.Every)) > schedule.CatchUpGrace:
			return fmt.Sprintf("job %d is for a missed tick, %v", j.ID, tick)
		}
	}
	switch last := p.next.Add(-s.Every); {
	case last.After(now):
		return fmt.Sprintf("the tick %v is still to come", last)
	case s.Paused != p.paused:
		return fmt.Sprintf("paused is %v", s.Paused)
	case p.paused && handled > 0:
		return "it is paused, and has handled ticks"
	case runs != int64(len(made)) || runs+skipped != handled:
		return fmt.Sprintf("it has made %d jobs and counts %d more runs and %d more skipped ticks; %d ticks have come", len(made), runs, skipped, handled)
	case s.Overlap == schedule.OverlapAllow && s.CatchUp >= 0 && len(made) < int(min(handled, int64(most))):
		return fmt.Sprintf("%d ticks have come, and it has made %d jobs instead of %d", handled, len(made), min(handled, int64(most)))
	case len(made) > most:
		return fmt.Sprintf("it has made %d jobs at once, at most %d may be (inv:E4)", len(made), most)
	case len(made) > 0 && live > 0 && s.Overlap != schedule.OverlapAllow:
		return fmt.Sprintf("it has made a job beside %d live ones", live)
	case swept && !p.paused && s.Overlap != schedule.OverlapQueue && !p.next.After(now):
		return fmt.Sprintf("the tick %v is overdue after a sweep", p.next)
	}
	return ""
}

// endSchedules removes all schedules and completes their jobs.
func (r scheduler) endSchedules() {
	keeper, ok := r.store.Store.(schedule.Store)
	if !ok {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(r.ticking.plans)) {
		r.changeSchedule(keeper, name, schedule.ActionDelete)
	}
	r.workTicks(sojourn.MaxBatch)
	r.ticksAre(false)
}

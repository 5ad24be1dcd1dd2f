package schedules

import (
	"errors"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var raceTrials = []kit.Trial{
	{Name: "ticks at the same time", Law: "Many sweeps at once make one job for each tick.", Covers: "inv:E1", Run: sweepsAtOnce},
	{Name: "ticks against changes", Law: "Sweeps, edits, pauses, runs and deletes at the same time make no tick twice.", Covers: "inv:E1 inv:E4", Run: ticksAgainstChanges},
}

// together runs functions at the same time, each several times.
func together(s *kit.Scene, times int, fs ...func() error) {
	s.Helper()
	var all sync.WaitGroup
	errs := make([]error, len(fs))
	for i, f := range fs {
		all.Go(func() {
			for range times {
				if err := f(); err != nil && !errors.Is(err, sojourn.ErrNotFound) {
					errs[i] = err
					return
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		s.Must(err, "a call")
	}
}

func sweep(s *kit.Scene) func() error {
	return func() error { _, err := s.Store.Sweep(s.Ctx, 100); return err }
}

func sweepsAtOnce(s *kit.Scene) {
	const names = 20
	for i := range names {
		d := nightly("*/10 * * * *")
		d.Name = "s" + string(rune('a'+i))
		set(s, d)
	}
	for range 5 {
		s.Advance(10 * time.Minute)
		together(s, 2, sweep(s), sweep(s), sweep(s), sweep(s), sweep(s))
	}
	for i := range names {
		jobs := made(s, "s"+string(rune('a'+i)))
		kit.Same(s, "jobs", len(jobs), 5)
		once(s, jobs)
	}
}

// once wants one job for each tick.
func once(s *kit.Scene, jobs []sojourn.Job) {
	s.Helper()
	seen := map[time.Time]bool{}
	for _, j := range jobs {
		at := j.ScheduledFor.UTC()
		if seen[at] {
			s.Fatalf("the tick of %s at %s has two jobs", j.Schedule, at)
		}
		seen[at] = true
	}
}

func ticksAgainstChanges(s *kit.Scene) {
	c := calls(s)
	for round := range 8 {
		one, other := nightly("*/10 * * * *"), nightly("*/5 * * * *")
		one.Overlap = []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapCancelPrevious, schedule.OverlapQueue}[round%4]
		set(s, one)
		s.Advance(10 * time.Minute)
		together(s, 3, sweep(s), sweep(s), sweep(s),
			func() error { _, err := c.Set(s.Ctx, other); return err },
			func() error { _, err := c.Set(s.Ctx, one); return err },
			func() error { return c.Pause(s.Ctx, "nightly") },
			func() error { return c.Resume(s.Ctx, "nightly") },
			func() error {
				if round%2 == 1 {
					return c.Delete(s.Ctx, "nightly")
				}
				return sweep(s)()
			})
		s.Sweep()
		once(s, made(s, "nightly"))
	}
	if err := c.Delete(s.Ctx, "nightly"); err != nil {
		s.Is(err, sojourn.ErrNotFound, "Delete")
	}
	finishAll(s)
	set(s, nightly("*/10 * * * *"))
	had := len(made(s, "nightly"))
	s.Advance(10 * time.Minute)
	s.Sweep()
	kit.Same(s, "jobs of the next tick", len(made(s, "nightly")), had+1)
}

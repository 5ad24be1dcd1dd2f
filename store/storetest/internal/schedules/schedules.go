// Package schedules has the cases about schedules and their ticks.
package schedules

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return append(append(append([]kit.Trial{}, tickTrials...), operateTrials...), raceTrials...)
}

// calls are the calls about schedules of a scene.
func calls(s *kit.Scene) schedule.Schedules {
	s.Helper()
	if _, keeps := s.Store.(schedule.Store); !keeps {
		s.Skip("this store keeps no schedules")
	}
	return schedule.Of(sojourn.NewClient(s.Store))
}

// nightly is a schedule by a cron expression.
func nightly(cron string, options ...sojourn.Option) schedule.Schedule {
	return schedule.Schedule{Name: "nightly", Cron: cron, Job: sojourn.NewJob(kit.Kind, []byte(`{"n":1}`), options...)}
}

func set(s *kit.Scene, d schedule.Schedule) schedule.Schedule {
	s.Helper()
	out, err := calls(s).Set(s.Ctx, d)
	s.Must(err, "Set of schedule %s", d.Name)
	return out
}

func get(s *kit.Scene, name string) schedule.Schedule {
	s.Helper()
	d, err := calls(s).Get(s.Ctx, name)
	s.Must(err, "Get of schedule %s", name)
	return d
}

// made lists the jobs of a schedule, oldest first.
func made(s *kit.Scene, name string) (out []sojourn.Job) {
	s.Helper()
	jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{Limit: sojourn.MaxFind})
	s.Must(err, "Find")
	for _, j := range jobs {
		if j.Schedule == name {
			out = append(out, j)
		}
	}
	return out
}

// ticked wants the jobs of the schedule to be those of these ticks (15:04, of any day).
func ticked(s *kit.Scene, want ...string) {
	s.Helper()
	var got []string
	for _, j := range made(s, "nightly") {
		got = append(got, j.ScheduledFor.UTC().Format("15:04"))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		s.Fatalf("at %s the ticks with jobs are %v, want %v", s.Now().Format(time.RFC3339), got, want)
	}
}

// until moves the clock to a time of day of the scene's first day, and sweeps.
func until(s *kit.Scene, clock string) {
	s.Helper()
	at, err := time.Parse(time.DateTime, "2026-03-02 "+clock+":00")
	if err != nil {
		s.Fatal(err)
	}
	s.Advance(at.Sub(s.Now()))
	s.Sweep()
}

// again opens a new store, at the beginning of the scene's first day.
func again(s *kit.Scene) {
	s.Helper()
	s.Advance(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).Sub(s.Now()))
	s.Open(kit.Options{})
}

// finishAll completes what is ready.
func finishAll(s *kit.Scene) {
	s.Helper()
	for cs := s.ClaimMany(kit.UpTo(100)); len(cs) > 0; cs = s.ClaimMany(kit.UpTo(100)) {
		for _, c := range cs {
			s.Finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCompleted}, sojourn.Completed)
		}
	}
}

// counts wants the counters of the schedule.
func counts(s *kit.Scene, runs, skipped int64) {
	s.Helper()
	d := get(s, "nightly")
	kit.Same(s, "runs and skipped", fmt.Sprint(d.Runs, d.Skipped), fmt.Sprint(runs, skipped))
}

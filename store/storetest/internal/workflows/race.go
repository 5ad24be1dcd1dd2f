package workflows

import (
	"fmt"
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
	"github.com/sojourn-queue/sojourn/workflow"
)

var raceTrials = []kit.Trial{
	{Name: "members end at the same time", Law: "However many members end at once, while others are redriven, the whole ends once in each generation.",
		Covers: "inv:E5", Run: endsAtOnce},
	{Name: "one start of many", Law: "Of many starts of the same workflow at once one stores it, and the others are duplicates.", Covers: "spec:D11", Run: startsAtOnce},
}

// together runs functions at the same time.
func together(s *kit.Scene, fs ...func() error) {
	s.Helper()
	var all sync.WaitGroup
	errs := make([]error, len(fs))
	for i, f := range fs {
		all.Go(func() { errs[i] = f() })
	}
	all.Wait()
	for _, err := range errs {
		s.Must(err, "a call")
	}
}

func endsAtOnce(s *kit.Scene) {
	const members = 40
	for round := range 5 {
		name := fmt.Sprint("w", round)
		w := workflow.New(name).OnEnd(callback("end")).OnFirstFailure(callback("failure"))
		for i := range members {
			w.Add(fmt.Sprint("m", i), job())
		}
		start(s, w)
		cs := s.ClaimMany(kit.UpTo(members))
		kit.Same(s, "claimed", len(cs), members)
		var fs []func() error
		for i, c := range cs {
			fs = append(fs, func() error {
				o := kit.Completed(c)
				if i%10 == round {
					o = kit.Abort(c)
				}
				_, err := s.Store.Finish(s.Ctx, []sojourn.Outcome{o})
				if err == nil && i%10 == round { // and it runs again, before or after the whole ends
					_, err = s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{c.Job.ID}}, sojourn.Edit{Action: sojourn.EditRedrive})
				}
				return err
			}, func() error { _, err := s.Store.Sweep(s.Ctx, 100); return err })
		}
		together(s, fs...)
		is(s, name, fmt.Sprintf("running %d: ready 4, completed 36", get(s, name).Generation))
		end(s)
		done := is(s, name, fmt.Sprintf("completed %d: completed %d", get(s, name).Generation, members))
		ends, failures := 0, 0
		for _, c := range s.ClaimMany(kit.Kinds(callbacks), kit.UpTo(100)) {
			if string(c.Job.Args) == `"end"` {
				ends++
			} else {
				failures++
			}
			s.Finish(kit.Completed(c), sojourn.Completed)
		}
		kit.Same(s, "callbacks of ends", ends, int(done.Generation))
		if failures < 1 || failures > int(done.Generation) {
			s.Fatalf("%d callbacks of first failures in %d generations", failures, done.Generation)
		}
	}
}

func startsAtOnce(s *kit.Scene) {
	c := calls(s)
	for round := range 5 {
		name := fmt.Sprint("w", round)
		var mu sync.Mutex
		fresh := 0
		var fs []func() error
		for range 8 {
			fs = append(fs, func() error {
				out, err := c.Start(s.Ctx, order(name))
				mu.Lock()
				defer mu.Unlock()
				if err == nil && !out.Duplicate {
					fresh++
				}
				return err
			})
		}
		together(s, fs...)
		kit.Same(s, "starts that stored it", fresh, 1)
		kit.Same(s, "jobs", jobsOf(s, name), 3)
	}
}

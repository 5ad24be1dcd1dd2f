package flow

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var forgetTrials = []kit.Trial{
	{Name: "forget a queue by force", Law: "It deletes the schedules, cancels and purges the jobs, and leaves young ones until their ids have expired.",
		Covers: "spec:A5 tr:O8 rules:A6", Run: forgetForced},
	{Name: "forget a queue in slices", Law: "Each call changes a bounded number of jobs, and another store can go on at any time.", Covers: "spec:A5", Run: forgetSlices},
	{Name: "forget a queue with dependents", Law: "Jobs of other queues follow their edges; one that would wait for ever refuses the call, before any change.",
		Covers: "spec:A5 spec:D8 rules:C6", Run: forgetDependents},
	{Name: "forget a queue that others depend on", Law: "Jobs in which the caller may not operate never hinder it.", Covers: "spec:A5 spec:D8", Run: forgetForeign},
}

// doomed is the queue that the cases forget.
const doomed = "doomed"

func forget(s *kit.Scene, o sojourn.ForgetOptions) sojourn.Forgotten {
	s.Helper()
	f, err := sojourn.NewClient(s.Store).Queues().Forget(s.Ctx, doomed, o)
	s.Must(err, "Forget")
	return f
}

// swept wants a state once the ends of the job's parents were worked on.
func swept(s *kit.Scene, id sojourn.ID, want sojourn.State) {
	s.Helper()
	for i := 0; i < 100 && s.Get(id).State != want; i++ {
		s.Sweep()
	}
	s.State(id, want)
}

func forgetForced(s *kit.Scene) {
	in := sojourn.Queue(doomed)
	old := s.Enqueue(in, sojourn.Key("old"))
	s.Cancel(old)
	s.Advance(sojourn.IDLife + time.Minute)
	elsewhere := s.Enqueue()
	running := s.Running(in, sojourn.Queue(doomed))
	s.Awaiting(in, sojourn.Key("waits"))
	s.Enqueue(in, sojourn.Delay(time.Hour))
	young := s.Job(in, sojourn.Key("young"))
	s.Put(young)
	schedules := int64(0)
	if keeps, ok := s.Store.(schedule.Store); ok {
		schedules = 1
		_, err := keeps.SetSchedule(s.Ctx, schedule.Schedule{Name: "into", Cron: "@daily", Job: sojourn.NewJob(kit.Kind, nil, in)}, schedule.ModeSet)
		s.Must(err, "SetSchedule")
	}
	err := s.Forget(doomed)
	s.Is(err, sojourn.ErrConflict, "Forget without force")
	for _, part := range []string{"4 live jobs", "1 job that", fmt.Sprint(schedules, " schedule")} {
		if !strings.Contains(err.Error(), part) {
			s.Fatalf("the refusal %q does not name %q", err, part)
		}
	}
	dry := forget(s, sojourn.ForgetOptions{Force: true, DryRun: true})
	dry.YoungUntil = time.Time{}
	kit.Same(s, "counted", dry, sojourn.Forgotten{Cancelled: 4, Purged: 5, Schedules: schedules, Young: 4})
	s.State(running.Job.ID, sojourn.Running)

	f := forget(s, sojourn.ForgetOptions{Force: true, By: "ann", Reason: "moved"})
	s.At("young until", f.YoungUntil, s.Get(young.ID).CreatedAt.Add(sojourn.IDLife+time.Microsecond))
	f.YoungUntil = time.Time{}
	kit.Same(s, "done", f, sojourn.Forgotten{Cancelled: 4, Purged: 1, Schedules: schedules, Young: 4})
	j := s.State(running.Job.ID, sojourn.Cancelled)
	kit.Same(s, "reason", j.Reason, "moved")
	s.Reports(kit.Completed(running), "lost")
	again := young // its call is repeated: the id names the cancelled job, which does not run again
	es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{again}, false)
	s.Must(err, "Enqueue")
	kit.Same(s, "duplicate and state", fmt.Sprint(es[0].Duplicate, es[0].State), fmt.Sprint(true, sojourn.Cancelled))

	s.Advance(sojourn.IDLife)
	kit.Same(s, "young at the end of the life of the ids", forget(s, sojourn.ForgetOptions{Force: true}).Young, 4)
	s.Advance(time.Microsecond)
	kit.Same(s, "done later", forget(s, sojourn.ForgetOptions{Force: true}), sojourn.Forgotten{Purged: 4, Gone: true})
	_, err = s.Store.Queues(s.Ctx, doomed)
	s.Is(err, sojourn.ErrNotFound, "the queue")
	s.State(elsewhere, sojourn.Ready)
	_, err = s.Store.Enqueue(s.Ctx, []sojourn.Job{again}, false)
	s.Refused(err, sojourn.CodeIDExpired, "an id of a purged job")
	s.Enqueue(in, sojourn.Key("young")) // the key is free
	_, err = sojourn.NewClient(s.Store).Queues().Forget(s.Ctx, "never", sojourn.ForgetOptions{Force: true})
	s.Is(err, sojourn.ErrNotFound, "Forget of a queue that is not there")
	for _, bad := range []sojourn.ForgetOptions{{DryRun: true}, {Force: true, Dependents: "maybe"}} {
		_, err = s.Store.ForgetQueue(s.Ctx, doomed, bad)
		s.Refused(err, sojourn.CodeInvalid, fmt.Sprintf("%+v", bad))
	}
}

func forgetSlices(s *kit.Scene) {
	const jobs = 1200
	for range jobs / 100 {
		s.EnqueueMany(100, sojourn.Queue(doomed))
	}
	step := func() sojourn.Forgotten {
		s.Helper()
		f, err := s.Store.ForgetQueue(s.Ctx, doomed, sojourn.ForgetOptions{Force: true})
		s.Must(err, "ForgetQueue")
		if f.Cancelled > 500 || f.Purged > 500 {
			s.Fatalf("one slice did %+v", f)
		}
		return f
	}
	all := sojourn.Forgotten{More: true}
	for i := 0; all.More; i++ {
		f := step()
		all = sojourn.Forgotten{Cancelled: all.Cancelled + f.Cancelled, Purged: all.Purged + f.Purged, Young: f.Young, More: f.More}
		if i == 1 { // between two slices everything is as it should be, and new jobs may come
			s.EnqueueMany(1, sojourn.Queue(doomed))
		}
	}
	kit.Same(s, "cancelled and young", fmt.Sprint(all.Cancelled, all.Young), fmt.Sprint(jobs+1, jobs+1))
	s.Advance(sojourn.IDLife + time.Second)
	step()
	kit.Same(s, "the rest", forget(s, sojourn.ForgetOptions{Force: true}), sojourn.Forgotten{Purged: jobs + 1 - 500, Gone: true})
}

func forgetDependents(s *kit.Scene) {
	in := sojourn.Queue(doomed)
	after := func(f sojourn.OnFailure, id sojourn.ID) sojourn.Option {
		return sojourn.WithDependency(sojourn.Dependency{Jobs: []sojourn.ID{id}, OnFailure: f})
	}
	for _, c := range []struct {
		dependents string
		waits      sojourn.State
	}{{"", 0}, {sojourn.DependentsCancel, sojourn.Cancelled}, {sojourn.DependentsRelease, sojourn.Ready}} {
		parent := s.Enqueue(in)
		s.Enqueue(in, after(sojourn.WaitOnFailure, parent)) // in the queue itself
		children := map[sojourn.ID]sojourn.State{
			s.Enqueue(after(sojourn.CancelOnFailure, parent)): sojourn.Cancelled,
			s.Enqueue(after(sojourn.FailOnFailure, parent)):   sojourn.Failed,
			s.Enqueue(after(sojourn.IgnoreFailure, parent)):   sojourn.Ready,
		}
		if c.dependents != "" {
			children[s.Enqueue(after(sojourn.WaitOnFailure, parent))] = c.waits
		} else {
			waits := s.Enqueue(after(sojourn.WaitOnFailure, parent))
			for _, dry := range []bool{true, false} {
				f, err := sojourn.NewClient(s.Store).Queues().Forget(s.Ctx, doomed, sojourn.ForgetOptions{Force: true, DryRun: dry})
				s.Is(err, sojourn.ErrConflict, "Forget while a job waits for one of the queue")
				if !strings.Contains(err.Error(), waits.String()) {
					s.Fatalf("the refusal %q does not name job %d", err, waits)
				}
				kit.Same(s, "what was done before", f, sojourn.Forgotten{})
			}
			s.State(parent, sojourn.Ready)
			s.Cancel(waits)
		}
		kit.Same(s, "cancelled", forget(s, sojourn.ForgetOptions{Force: true, Dependents: c.dependents}).Cancelled, 2)
		for id, want := range children {
			swept(s, id, want)
		}
	}
	failed := s.Final(sojourn.Failed, in).Job.ID // a failed parent goes too
	waits := s.Enqueue(after(sojourn.WaitOnFailure, failed))
	s.Advance(sojourn.IDLife + time.Minute)
	_, err := sojourn.NewClient(s.Store).Queues().Forget(s.Ctx, doomed, sojourn.ForgetOptions{Force: true})
	s.Is(err, sojourn.ErrConflict, "Forget while a job waits for a failed one")
	kit.Same(s, "gone", forget(s, sojourn.ForgetOptions{Force: true, Dependents: sojourn.DependentsRelease}).Gone, true)
	swept(s, waits, sojourn.Ready)
}

func forgetForeign(s *kit.Scene) {
	alice := s.Tenant("alice", access.Grant{Verbs: []access.Verb{access.VerbAdmin}, Queue: doomed})
	parent := s.Enqueue(sojourn.Queue(doomed))
	waits := s.Enqueue(sojourn.WithDependency(sojourn.Dependency{Jobs: []sojourn.ID{parent}}))
	f := forget(alice, sojourn.ForgetOptions{Force: true})
	kit.Same(s, "cancelled", f.Cancelled, 1)
	s.State(waits, sojourn.Blocked) // its owner may redrive what it waits for, until that is purged
	s.Advance(sojourn.IDLife + time.Minute)
	kit.Same(s, "gone", forget(alice, sojourn.ForgetOptions{Force: true}).Gone, true)
	swept(s, waits, sojourn.Cancelled)
}

package tenants

import (
	"fmt"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var concurrentTrials = []kit.Trial{
	{Name: "many claims side by side", Law: "No job is given to two claims, and every job is given to one.",
		Covers: "inv:F1 spec:O14 spec:L1 tr:C1", Run: concurrentClaims},
	{Name: "one key from many producers", Law: "Many enqueues with one key make one job, and all are told which.", Covers: "inv:U1 inv:U3 tr:N5", Run: concurrentKey},
	{Name: "one id from many retries", Law: "Many repeats of one enqueue make one job.", Covers: "inv:A3 tr:N4 rules:F1", Run: concurrentID},
	{Name: "id blocks side by side", Law: "Blocks leased at the same time never overlap.", Covers: "spec:J1 inv:N2", Run: concurrentBlocks},
	{Name: "one response from many deliveries", Law: "Many deliveries of one message are one response.", Covers: "tr:R1 inv:U4 rules:B8", Run: concurrentResponse},
	{Name: "many answers to one job", Law: "A running job keeps every answer that comes, from wherever, and each of its waits gets one.",
		Covers: "tr:R5 tr:M1 inv:U4 rules:G1", Run: concurrentAnswers},
	{Name: "one Finish from many retries", Law: "Of many reports under one lease exactly one is applied.", Covers: "tr:F12 inv:F8 inv:F2", Run: concurrentFinish},
	{Name: "many sweeps side by side", Law: "However many sweeps run, each overdue thing is handled once.",
		Covers: "tr:W1 inv:F4 spec:L4 spec:L7", Run: concurrentSweeps},
	{Name: "everything side by side", Law: "Workers, producers, responders and sweeps together lose nothing and do nothing twice.",
		Covers: "inv:L7 inv:F1 inv:U4 inv:A4 spec:B5 spec:A1", Run: concurrentAll},
}

// crowd runs n calls at the same time and fails the case with the first error.
func crowd(s *kit.Scene, n int, call func(i int) error) {
	s.Helper()
	errs := make([]error, n)
	var fs []func()
	for i := range n {
		fs = append(fs, func() { errs[i] = call(i) })
	}
	kit.SideBySide(fs...)
	for i, err := range errs {
		s.Must(err, "call %d of %d at the same time", i, n)
	}
}

func concurrentClaims(s *kit.Scene) {
	const jobs, workers = 300, 8
	for range 3 {
		s.EnqueueMany(jobs / 3)
	}
	var mu sync.Mutex // guards given
	given := map[sojourn.ID]string{}
	crowd(s, workers, func(i int) error {
		worker := fmt.Sprintf("w%d", i)
		for n := int64(1); ; n++ {
			cs, err := s.Store.Claim(s.Ctx, driver.ClaimRequest{Worker: worker, Number: n, Queues: []string{kit.Queue}, Kinds: []string{kit.Kind},
				Max: 1 + i, Capacity: 1000, Lease: kit.LeaseTime})
			if err != nil || len(cs) == 0 {
				return err
			}
			mu.Lock()
			for _, c := range cs {
				if other := given[c.Job.ID]; other != "" {
					err = fmt.Errorf("job %d was given to %s and to %s", c.Job.ID, other, worker)
				}
				given[c.Job.ID] = worker
			}
			mu.Unlock()
			if err != nil {
				return err
			}
		}
	})
	kit.Same(s, "jobs given", len(given), jobs)
	kit.Same(s, "jobs running", s.Queue(kit.Queue).Counts[sojourn.Running], jobs)
}

func concurrentKey(s *kit.Scene) {
	const callers = 12
	var jobs []sojourn.Job
	for range callers {
		jobs = append(jobs, s.Job(sojourn.Key("k")))
	}
	answers := make([]sojourn.Enqueued, callers)
	crowd(s, callers, func(i int) error {
		es, err := s.Store.Enqueue(s.Ctx, jobs[i:i+1], false)
		if err == nil {
			answers[i] = es[0]
		}
		return err
	})
	fresh := 0
	for _, e := range answers {
		kit.Same(s, "the job named", e.ID, answers[0].ID)
		if !e.Duplicate {
			fresh++
		}
	}
	kit.Same(s, "answers that say it is new", fresh, 1)
	kit.Same(s, "jobs", len(s.Find(sojourn.Filter{})), 1)
}

func concurrentID(s *kit.Scene) {
	const callers = 12
	j := s.Job()
	answers := make([]sojourn.Enqueued, callers)
	crowd(s, callers, func(i int) error {
		es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
		if err == nil {
			answers[i] = es[0]
		}
		return err
	})
	fresh := 0
	for _, e := range answers {
		kit.Same(s, "the job named", e.ID, j.ID)
		if !e.Duplicate {
			fresh++
		}
	}
	kit.Same(s, "answers that say it is new", fresh, 1)
}

func concurrentBlocks(s *kit.Scene) {
	const callers, size = 10, 100
	firsts := make([]sojourn.ID, callers)
	crowd(s, callers, func(i int) (err error) {
		firsts[i], err = s.Store.IDs(s.Ctx, size)
		return err
	})
	seen := map[sojourn.ID]bool{}
	for _, first := range firsts {
		for k := range sojourn.ID(size) {
			if seen[first+k] {
				s.Fatalf("the id %d was leased twice", first+k)
			}
			seen[first+k] = true
		}
	}
}

func concurrentResponse(s *kit.Scene) {
	const callers = 12
	c := s.Awaiting(sojourn.Key("k"))
	r := s.Answer("k")
	answers := make([]sojourn.Responded, callers)
	crowd(s, callers, func(i int) error {
		as, err := s.Store.Respond(s.Ctx, []sojourn.Response{r})
		if err == nil {
			answers[i] = as[0]
		}
		return err
	})
	applied := 0
	for _, a := range answers {
		switch a.Outcome {
		case sojourn.Applied:
			applied++
		case sojourn.Duplicate:
		default:
			s.Fatalf("a delivery was answered %+v", a)
		}
	}
	kit.Same(s, "deliveries that were applied", applied, 1)
	kit.Same(s, "duplicates counted", s.Stored(answers[0].Seq, sojourn.Applied).Duplicates, callers-1)
	kit.Same(s, "resumed", s.State(c.Job.ID, sojourn.Ready).Resumed, true)
}

func concurrentAnswers(s *kit.Scene) {
	const rounds, callers = 4, 10
	for round := range rounds {
		key := fmt.Sprint("k", round)
		c := s.Running(sojourn.Key(key))
		answers := make([]sojourn.Response, callers)
		want := map[string]bool{}
		for i := range answers {
			answers[i] = s.Answer(key)
			want[string(answers[i].Body)] = true
		}
		crowd(s, callers, func(i int) error {
			_, err := s.Store.Respond(s.Ctx, answers[i:i+1])
			return err
		})
		kit.Same(s, "kept", s.State(c.Job.ID, sojourn.Running).Kept, callers)
		for range callers {
			s.Finish(kit.Await(c, 0), sojourn.Ready)
			c = s.Claim()
			delete(want, string(s.ClaimedResponse(c).Body))
		}
		kit.Same(s, "answers that the handler was not given", len(want), 0)
		s.Finish(kit.Completed(c), sojourn.Completed)
	}
}

func concurrentFinish(s *kit.Scene) {
	const callers = 12
	c := s.Running()
	status := make([]driver.FinishStatus, callers)
	crowd(s, callers, func(i int) error {
		o := kit.Completed(c)
		if i%2 == 1 {
			o = kit.Abort(c)
		}
		fs, err := s.Store.Finish(s.Ctx, []sojourn.Outcome{o})
		if err == nil {
			status[i] = fs[0].Status
		}
		return err
	})
	counts := map[driver.FinishStatus]int{}
	for _, st := range status {
		counts[st]++
	}
	if counts[driver.FinishApplied] != 1 || counts[driver.FinishRepeated] != callers/2-1 || counts[driver.FinishLost] != callers/2 {
		s.Fatalf("the answers were %v, want 1 applied, %d repeated and %d lost", counts, callers/2-1, callers/2)
	}
	kit.Same(s, "entries in the history", len(s.History(c.Job.ID)), 1)
}

func concurrentSweeps(s *kit.Scene) {
	ids := s.EnqueueMany(60)
	kit.Same(s, "claimed", len(s.ClaimMany(kit.UpTo(60))), 60)
	s.EnqueueMany(40, sojourn.Delay(time.Second))
	s.Advance(kit.LeaseTime)
	const callers = 6
	sums := make([]driver.Swept, callers)
	crowd(s, callers, func(i int) error {
		for {
			w, err := s.Store.Sweep(s.Ctx, 7)
			if err != nil || w.Total() == 0 {
				return err
			}
			sums[i].Lost += w.Lost
			sums[i].Due += w.Due
		}
	})
	var sum driver.Swept
	for _, w := range sums {
		sum.Lost += w.Lost
		sum.Due += w.Due
	}
	kit.Same(s, "what the sweeps handled", sum, driver.Swept{Lost: 60, Due: 40})
	for _, id := range ids[:5] {
		s.Counters(id, 1, 0, 1)
		s.Happened(id, "lost")
	}
}

// concurrentAll lets three workers send requests and finish with the answers, while a responder
// answers each request twice, two producers enqueue, and a sweep runs.
func concurrentAll(s *kit.Scene) {
	const producers, each = 2, 60
	var batches [producers][]sojourn.Job
	for p := range producers {
		for i := range each {
			batches[p] = append(batches[p], s.Job(sojourn.Key(fmt.Sprintf("%d-%d", p, i))))
		}
	}
	sent := make(chan string, 2*producers*each)
	done := make(chan struct{})
	var mu sync.Mutex // guards ended
	ended := map[sojourn.ID]int{}
	calls := []func() error{
		func() error { return responder(s, sent, done) },
		func() error {
			for {
				select {
				case <-done:
					return nil
				case <-time.After(time.Millisecond):
				}
				if _, err := s.Store.Sweep(s.Ctx, 100); err != nil {
					return err
				}
			}
		},
	}
	for p := range producers {
		calls = append(calls, func() error {
			for i := 0; i < each; i += 3 {
				if _, err := s.Store.Enqueue(s.Ctx, batches[p][i:i+3], false); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for w := range 3 {
		calls = append(calls, func() error {
			return worker(s, fmt.Sprintf("worker%d", w), sent, done, func(id sojourn.ID) {
				mu.Lock()
				defer mu.Unlock()
				if ended[id]++; len(ended) == producers*each {
					select {
					case <-done:
					default:
						close(done)
					}
				}
			})
		})
	}
	crowd(s, len(calls), func(i int) error { return calls[i]() })
	for id, n := range ended {
		kit.Same(s, fmt.Sprintf("times that job %d ended", id), n, 1)
		s.Counters(id, 1, 0, 0)
	}
	kit.Same(s, "completed jobs", s.Queue(kit.Queue).Counts[sojourn.Completed], producers*each)
	kit.Same(s, "applied responses", len(s.Inbox(sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{sojourn.Applied}, Limit: 1000})), producers*each)
}

// responder answers each key twice, with one message.
func responder(s *kit.Scene, sent <-chan string, done <-chan struct{}) error {
	for {
		select {
		case <-done:
			return nil
		case <-s.Ctx.Done():
			return s.Ctx.Err()
		case key := <-sent:
			r := sojourn.Response{Kind: kit.Kind, Key: key, Source: "gateway", MessageID: "answer to " + key, Body: []byte(key)}
			for range 2 {
				if _, err := s.Store.Respond(s.Ctx, []sojourn.Response{r}); err != nil {
					return err
				}
			}
		}
	}
}

// worker awaits on a start and completes on a resume.
func worker(s *kit.Scene, name string, sent chan<- string, done <-chan struct{}, ended func(sojourn.ID)) error {
	for n := int64(1); ; n++ {
		select {
		case <-done:
			return nil
		default:
		}
		cs, err := s.Store.Claim(s.Ctx, driver.ClaimRequest{Worker: name, Number: n, Queues: []string{kit.Queue}, Kinds: []string{kit.Kind},
			Max: 5, Capacity: 1000, Lease: kit.LeaseTime, Wait: 20 * time.Millisecond})
		if err != nil {
			return err
		}
		var os []sojourn.Outcome
		for _, c := range cs {
			switch {
			case c.Job.Response == nil:
				sent <- c.Job.Key // its answer may come before the Await
				os = append(os, kit.Await(c, 0))
			case string(c.Job.Response.Body) != c.Job.Key:
				return fmt.Errorf("job %d with the key %s was given the answer to %s", c.Job.ID, c.Job.Key, c.Job.Response.Body)
			default:
				os = append(os, kit.Completed(c))
			}
		}
		if len(os) == 0 {
			continue
		}
		fs, err := s.Store.Finish(s.Ctx, os)
		if err != nil {
			return err
		}
		for i, f := range fs {
			if f.Status != driver.FinishApplied {
				return fmt.Errorf("Finish(%s) of job %d was answered %+v", os[i].Type, os[i].Lease.ID, f)
			}
			if f.State == sojourn.Completed {
				ended(os[i].Lease.ID)
			}
		}
	}
}

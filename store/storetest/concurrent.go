package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var concurrentTrials = []trial{
	{"many claims side by side", "No job is given to two claims, and every job is given to one.", "inv:F1 spec:O14 spec:L1 tr:C1", concurrentClaims},
	{"one key from many producers", "Many enqueues with one key make one job, and all are told which.", "inv:U1 inv:U3 tr:N5", concurrentKey},
	{"one id from many retries", "Many repeats of one enqueue make one job.", "inv:A3 tr:N4 rules:F1", concurrentID},
	{"id blocks side by side", "Blocks leased at the same time never overlap.", "spec:J1 inv:N2", concurrentBlocks},
	{"one response from many deliveries", "Many deliveries of one message are one response.", "tr:R1 inv:U4 rules:B8", concurrentResponse},
	{"many answers to one job", "A running job keeps every answer that comes, from wherever, and each of its waits gets one.", "tr:R5 tr:M1 inv:U4 rules:G1", concurrentAnswers},
	{"one Finish from many retries", "Of many reports under one lease exactly one is applied.", "tr:F12 inv:F8 inv:F2", concurrentFinish},
	{"many sweeps side by side", "However many sweeps run, each overdue thing is handled once.", "tr:W1 inv:F4 spec:L4 spec:L7", concurrentSweeps},
	{"everything side by side", "Workers, producers, responders and sweeps together lose nothing and do nothing twice.",
		"inv:L7 inv:F1 inv:U4 inv:A4 spec:B5 spec:A1", concurrentAll},
}

// crowd runs n calls at the same time and fails the case with the first error.
func (s *scene) crowd(n int, call func(i int) error) {
	s.Helper()
	errs := make([]error, n)
	var fs []func()
	for i := range n {
		fs = append(fs, func() { errs[i] = call(i) })
	}
	sideBySide(fs...)
	for i, err := range errs {
		s.must(err, "call %d of %d at the same time", i, n)
	}
}

func concurrentClaims(s *scene) {
	const jobs, workers = 300, 8
	for range 3 {
		s.enqueueMany(jobs / 3)
	}
	var mu sync.Mutex // guards given
	given := map[sojourn.ID]string{}
	s.crowd(workers, func(i int) error {
		worker := fmt.Sprintf("w%d", i)
		for n := int64(1); ; n++ {
			cs, err := s.store.Claim(s.ctx, driver.ClaimRequest{Worker: worker, Number: n, Queues: []string{line}, Kinds: []string{charge},
				Max: 1 + i, Capacity: 1000, Lease: lease})
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
	same(s, "jobs given", len(given), jobs)
	same(s, "jobs running", s.queue(line).Counts[sojourn.Running], jobs)
}

func concurrentKey(s *scene) {
	const callers = 12
	var jobs []sojourn.Job
	for range callers {
		jobs = append(jobs, s.job(sojourn.Key("k")))
	}
	answers := make([]sojourn.Enqueued, callers)
	s.crowd(callers, func(i int) error {
		es, err := s.store.Enqueue(s.ctx, jobs[i:i+1], false)
		if err == nil {
			answers[i] = es[0]
		}
		return err
	})
	fresh := 0
	for _, e := range answers {
		same(s, "the job named", e.ID, answers[0].ID)
		if !e.Duplicate {
			fresh++
		}
	}
	same(s, "answers that say it is new", fresh, 1)
	same(s, "jobs", len(s.find(sojourn.Filter{})), 1)
}

func concurrentID(s *scene) {
	const callers = 12
	j := s.job()
	answers := make([]sojourn.Enqueued, callers)
	s.crowd(callers, func(i int) error {
		es, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, false)
		if err == nil {
			answers[i] = es[0]
		}
		return err
	})
	fresh := 0
	for _, e := range answers {
		same(s, "the job named", e.ID, j.ID)
		if !e.Duplicate {
			fresh++
		}
	}
	same(s, "answers that say it is new", fresh, 1)
}

func concurrentBlocks(s *scene) {
	const callers, size = 10, 100
	firsts := make([]sojourn.ID, callers)
	s.crowd(callers, func(i int) (err error) {
		firsts[i], err = s.store.IDs(s.ctx, size)
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

func concurrentResponse(s *scene) {
	const callers = 12
	c := s.awaiting(sojourn.Key("k"))
	r := s.answer("k")
	answers := make([]sojourn.Responded, callers)
	s.crowd(callers, func(i int) error {
		as, err := s.store.Respond(s.ctx, []sojourn.Response{r})
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
	same(s, "deliveries that were applied", applied, 1)
	same(s, "duplicates counted", s.lies(answers[0].Seq, sojourn.Applied).Duplicates, callers-1)
	same(s, "resumed", s.state(c.Job.ID, sojourn.Ready).Resumed, true)
}

func concurrentAnswers(s *scene) {
	const rounds, callers = 4, 10
	for round := range rounds {
		key := fmt.Sprint("k", round)
		c := s.running(sojourn.Key(key))
		answers := make([]sojourn.Response, callers)
		want := map[string]bool{}
		for i := range answers {
			answers[i] = s.answer(key)
			want[string(answers[i].Body)] = true
		}
		s.crowd(callers, func(i int) error {
			_, err := s.store.Respond(s.ctx, answers[i:i+1])
			return err
		})
		same(s, "kept", s.state(c.Job.ID, sojourn.Running).Kept, callers)
		for range callers {
			s.finish(await(c, 0), sojourn.Ready)
			c = s.claim()
			delete(want, string(s.inHand(c).Body))
		}
		same(s, "answers that the handler was not given", len(want), 0)
		s.finish(completed(c), sojourn.Completed)
	}
}

func concurrentFinish(s *scene) {
	const callers = 12
	c := s.running()
	status := make([]driver.FinishStatus, callers)
	s.crowd(callers, func(i int) error {
		o := completed(c)
		if i%2 == 1 {
			o = abort(c)
		}
		fs, err := s.store.Finish(s.ctx, []sojourn.Outcome{o})
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
	same(s, "entries in the history", len(s.history(c.Job.ID)), 1)
}

func concurrentSweeps(s *scene) {
	ids := s.enqueueMany(60)
	same(s, "claimed", len(s.claimMany(upTo(60))), 60)
	s.enqueueMany(40, sojourn.Delay(time.Second))
	s.advance(lease)
	const callers = 6
	sums := make([]driver.Swept, callers)
	s.crowd(callers, func(i int) error {
		for {
			w, err := s.store.Sweep(s.ctx, 7)
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
	same(s, "what the sweeps handled", sum, driver.Swept{Lost: 60, Due: 40})
	for _, id := range ids[:5] {
		s.counters(id, 1, 0, 1)
		s.happened(id, "lost")
	}
}

// concurrentAll lets three workers send requests and finish with the answers, while a responder
// answers each request twice, two producers enqueue, and a sweep runs.
func concurrentAll(s *scene) {
	const producers, each = 2, 60
	var batches [producers][]sojourn.Job
	for p := range producers {
		for i := range each {
			batches[p] = append(batches[p], s.job(sojourn.Key(fmt.Sprintf("%d-%d", p, i))))
		}
	}
	sent := make(chan string, 2*producers*each)
	done := make(chan struct{})
	var mu sync.Mutex // guards ended
	ended := map[sojourn.ID]int{}
	calls := []func() error{
		func() error { return s.responder(sent, done) },
		func() error {
			for {
				select {
				case <-done:
					return nil
				case <-time.After(time.Millisecond):
				}
				if _, err := s.store.Sweep(s.ctx, 100); err != nil {
					return err
				}
			}
		},
	}
	for p := range producers {
		calls = append(calls, func() error {
			for i := 0; i < each; i += 3 {
				if _, err := s.store.Enqueue(s.ctx, batches[p][i:i+3], false); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for w := range 3 {
		calls = append(calls, func() error {
			return s.worker(fmt.Sprintf("worker%d", w), sent, done, func(id sojourn.ID) {
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
	s.crowd(len(calls), func(i int) error { return calls[i]() })
	for id, n := range ended {
		same(s, fmt.Sprintf("times that job %d ended", id), n, 1)
		s.counters(id, 1, 0, 0)
	}
	same(s, "completed jobs", s.queue(line).Counts[sojourn.Completed], producers*each)
	same(s, "applied responses", len(s.inbox(sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{sojourn.Applied}, Limit: 1000})), producers*each)
}

// responder answers each key twice, with one message.
func (s *scene) responder(sent <-chan string, done <-chan struct{}) error {
	for {
		select {
		case <-done:
			return nil
		case <-s.ctx.Done():
			return s.ctx.Err()
		case key := <-sent:
			r := sojourn.Response{Kind: charge, Key: key, Source: "gateway", MessageID: "answer to " + key, Body: []byte(key)}
			for range 2 {
				if _, err := s.store.Respond(s.ctx, []sojourn.Response{r}); err != nil {
					return err
				}
			}
		}
	}
}

// worker awaits on a start and completes on a resume.
func (s *scene) worker(name string, sent chan<- string, done <-chan struct{}, ended func(sojourn.ID)) error {
	for n := int64(1); ; n++ {
		select {
		case <-done:
			return nil
		default:
		}
		cs, err := s.store.Claim(s.ctx, driver.ClaimRequest{Worker: name, Number: n, Queues: []string{line}, Kinds: []string{charge},
			Max: 5, Capacity: 1000, Lease: lease, Wait: 20 * time.Millisecond})
		if err != nil {
			return err
		}
		var os []sojourn.Outcome
		for _, c := range cs {
			switch {
			case c.Job.Response == nil:
				sent <- c.Job.Key // its answer may come before the Await
				os = append(os, await(c, 0))
			case string(c.Job.Response.Body) != c.Job.Key:
				return fmt.Errorf("job %d with the key %s was given the answer to %s", c.Job.ID, c.Job.Key, c.Job.Response.Body)
			default:
				os = append(os, completed(c))
			}
		}
		if len(os) == 0 {
			continue
		}
		fs, err := s.store.Finish(s.ctx, os)
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

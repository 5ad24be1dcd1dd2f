package storetest

import (
	"bytes"
	"fmt"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
)

func txMany(s *txScene) {
	jobs := make([]sojourn.Job, sojourn.MaxBatch)
	for i := range jobs {
		jobs[i] = anonymous(sojourn.Key(fmt.Sprint("key-", (i*7919)%len(jobs))), args(fmt.Sprint(i)))
	}
	x := s.begin()
	es, err := x.try(jobs...)
	s.must(err, "EnqueueTx of many")
	_, err = x.try(append(jobs, anonymous())...)
	s.refused(err, sojourn.CodeInvalid, "one more than a call may have")
	x.commit()
	seen := map[sojourn.ID]bool{}
	for i, e := range es {
		if seen[e.ID] || e.Duplicate {
			s.Fatalf("job %d answered %+v", i, e)
		}
		seen[e.ID] = true
	}
	for _, i := range []int{0, 1, len(es) / 2, len(es) - 1} {
		same(s.scene, "args", string(s.get(es[i].ID).Args), fmt.Sprint(i))
	}
}

func txBytes(s *txScene) {
	for _, b := range [][]byte{nil, {}, {0}, []byte("a\x00b\xff\xfe"), []byte(`'; drop table sj_job; --`), bytes.Repeat([]byte{0, 0xff}, 5000)} {
		j := anonymous(sojourn.Meta("quote", `it's "so" ?1 $1`))
		j.Args = b
		x := s.begin()
		e := x.put(j)
		x.commit()
		got := s.get(e.ID)
		if !bytes.Equal(got.Args, b) {
			s.Fatalf("args %q came out as %q", b, got.Args)
		}
		same(s.scene, "meta", got.Meta["quote"], j.Meta["quote"])
		c := s.claim()
		o := completed(c)
		o.Result = b
		x = s.begin()
		s.must(x.finish(o), "FinishTx")
		x.commit()
		if got := s.state(e.ID, sojourn.Completed); !bytes.Equal(got.Result, b) {
			s.Fatalf("the result %q came out as %q", b, got.Result)
		}
	}
}

func txHandles(s *txScene) {
	for _, handle := range []any{nil, 7, "begin"} {
		_, err := s.store.(driver.TxStore).EnqueueTx(s.ctx, handle, []sojourn.Job{anonymous()})
		s.refused(err, sojourn.CodeInvalid, "no transaction")
	}
	for _, end := range []func(tx){tx.commit, tx.rollback} {
		x := s.begin()
		end(x)
		if _, err := x.try(anonymous()); err == nil {
			s.Fatal("a transaction that is over has taken a job")
		}
	}
	s.none("after the refusals")
}

func txFinish(s *txScene) {
	c := s.running(sojourn.Key("k"))
	o := completed(c)
	o.Result, o.ResultType, o.Log = []byte(`{"ok":true}`), "application/json", []sojourn.LogLine{{Level: "INFO", Text: "done"}}
	x := s.begin()
	x.insert(1)
	s.must(x.finish(o), "FinishTx")
	s.state(c.Job.ID, sojourn.Running)
	s.rows()
	x.commit()
	s.rows(1)
	j := s.state(c.Job.ID, sojourn.Completed)
	same(s.scene, "result", string(j.Result), `{"ok":true}`)
	s.at("finished_at", j.FinishedAt, s.now())
	s.inFlight(0, "after the commit")
	s.happened(c.Job.ID, "completed")
	lines, err := s.store.Log(s.ctx, c.Job.ID)
	s.must(err, "Log")
	same(s.scene, "log lines", len(lines), 1)
	s.reports(o, driver.FinishRepeated)
	// The worker reports an error for a handler that it knows to have used a transaction, in case
	// of a rollback.
	f := s.reports(failure(c), driver.FinishLost)
	same(s.scene, "state", f.State, sojourn.Completed)
	same(s.scene, "reason", f.Reason, driver.LostEnded)
	if e := s.put(s.job(sojourn.Key("k"))); e.Duplicate {
		s.Fatalf("the key is not free: %+v", e)
	}
}

func txFinishBack(s *txScene) {
	for _, report := range []func(driver.Claimed) sojourn.Outcome{completed, failure} {
		c := s.running()
		x := s.begin()
		x.insert(1)
		s.must(x.finish(completed(c)), "FinishTx")
		x.rollback()
		s.rows()
		s.state(c.Job.ID, sojourn.Running)
		s.extends(c.Lease, true)
		s.reports(report(c), driver.FinishApplied)
	}
}

func txFinishLost(s *txScene) {
	cancelled := s.running()
	s.cancel(cancelled.Job.ID)
	taken := s.running()
	s.swept(lease, driver.Swept{Lost: 1})
	same(s.scene, "the job taken over", s.claim(by("w2")).Job.ID, taken.Job.ID)
	stranger := taken
	stranger.Lease.Epoch, stranger.Lease.Worker = 2, "w3"
	unknown := taken
	unknown.Lease.ID = 1 << 40
	for _, c := range []driver.Claimed{cancelled, taken, stranger, unknown} {
		x := s.begin()
		x.insert(1)
		err := x.finish(completed(c))
		s.is(err, sojourn.ErrLeaseLost, "a lost lease")
		s.refused(err, sojourn.CodeLeaseLost, "a lost lease")
		x.rollback()
	}
	s.rows()
	s.state(cancelled.Job.ID, sojourn.Cancelled)
	same(s.scene, "the owner", s.state(taken.Job.ID, sojourn.Running).Worker, "w2")
}

func txFinishTwice(s *txScene) {
	c := s.running()
	x := s.begin()
	x.insert(1)
	s.must(x.finish(completed(c)), "FinishTx")
	s.is(x.finish(completed(c)), sojourn.ErrLeaseLost, "a second time in the same transaction")
	x.commit()
	x = s.begin()
	x.insert(2)
	s.is(x.finish(completed(c)), sojourn.ErrLeaseLost, "a second time in another transaction")
	x.rollback()
	s.rows(1)
	s.state(c.Job.ID, sojourn.Completed)
	s.happened(c.Job.ID, "completed")
}

func txFinishRefused(s *txScene) {
	c := s.running()
	o := completed(c)
	o.Result = bytes.Repeat([]byte("x"), sojourn.DefaultMaxBytes+1)
	x := s.begin()
	x.insert(1)
	s.refused(x.finish(o), sojourn.CodeTooLarge, "a result over the limit")
	o.Result = nil
	s.must(x.finish(o), "FinishTx after a refusal")
	x.commit()
	s.rows(1)
	s.state(c.Job.ID, sojourn.Completed)
}

func txFinishNext(s *txScene) {
	c := s.running(sojourn.Key("k"))
	x := s.begin()
	e := x.put(anonymous(sojourn.Key("k")))
	same(s.scene, "before the end", e.ID, c.Job.ID)
	s.must(x.finish(completed(c)), "FinishTx")
	e = x.put(anonymous(sojourn.Key("k")))
	if e.Duplicate || e.ID == c.Job.ID {
		s.Fatalf("after the end the key answered %+v", e)
	}
	x.commit()
	s.state(c.Job.ID, sojourn.Completed)
	s.state(e.ID, sojourn.Ready)
	same(s.scene, "the next", s.claim().Job.ID, e.ID)
}

func txCallers(s *txScene) {
	alice, mallory := s.tenant("alice", everything), s.tenant("mallory", access.Grant{Verbs: []access.Verb{access.VerbEnqueue}, Queue: "attack-*"})
	store := s.store.(driver.TxStore)
	own := alice.job(sojourn.Key("k"))
	x := s.begin()
	for _, t := range []*scene{s.scene, mallory} {
		foreign := *sojourn.NewJob(charge, nil, sojourn.Queue("attack-1"))
		foreign.ID = own.ID
		_, err := store.EnqueueTx(t.ctx, x.Handle, []sojourn.Job{foreign})
		s.refused(err, sojourn.CodeInvalid, "an id of another caller")
	}
	es, err := store.EnqueueTx(alice.ctx, x.Handle, []sojourn.Job{anonymous(), own, anonymous()})
	s.must(err, "EnqueueTx with leased and drawn ids")
	x.commit()
	for _, e := range es {
		s.state(e.ID, sojourn.Ready)
	}
	same(s.scene, "a repeat outside", alice.put(own).Duplicate, true)
	x = s.begin()
	stolen := anonymous(sojourn.Key("k"), sojourn.Queue("attack-1"), sojourn.OnKeyConflict(sojourn.Replace))
	_, err = store.EnqueueTx(mallory.ctx, x.Handle, []sojourn.Job{stolen})
	s.is(err, sojourn.ErrConflict, "the key of a job out of reach")
	x.rollback()
}

package storetest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
	"github.com/sojourn-queue/sojourn/workflow"
)

func txMany(s *txScene) {
	jobs := make([]sojourn.Job, sojourn.MaxBatch)
	for i := range jobs {
		jobs[i] = anonymous(sojourn.Key(fmt.Sprint("key-", (i*7919)%len(jobs))), kit.Args(fmt.Sprint(i)))
	}
	x := s.begin()
	es, err := x.try(jobs...)
	s.Must(err, "EnqueueTx of many")
	_, err = x.try(append(jobs, anonymous())...)
	s.Refused(err, sojourn.CodeInvalid, "one more than a call may have")
	x.commit()
	seen := map[sojourn.ID]bool{}
	for i, e := range es {
		if seen[e.ID] || e.Duplicate {
			s.Fatalf("job %d answered %+v", i, e)
		}
		seen[e.ID] = true
	}
	for _, i := range []int{0, 1, len(es) / 2, len(es) - 1} {
		kit.Same(s.Scene, "args", string(s.Get(es[i].ID).Args), fmt.Sprint(i))
	}
}

func txBytes(s *txScene) {
	for _, b := range [][]byte{nil, {}, {0}, []byte("a\x00b\xff\xfe"), []byte(`'; drop table sj_job; --`), bytes.Repeat([]byte{0, 0xff}, 5000)} {
		j := anonymous(sojourn.Meta("quote", `it's "so" ?1 $1`))
		j.Args = b
		x := s.begin()
		e := x.put(j)
		x.commit()
		got := s.Get(e.ID)
		if !bytes.Equal(got.Args, b) {
			s.Fatalf("args %q came out as %q", b, got.Args)
		}
		kit.Same(s.Scene, "meta", got.Meta["quote"], j.Meta["quote"])
		c := s.Claim()
		o := kit.Completed(c)
		o.Result = b
		x = s.begin()
		s.Must(x.finish(o), "FinishTx")
		x.commit()
		if got := s.State(e.ID, sojourn.Completed); !bytes.Equal(got.Result, b) {
			s.Fatalf("the result %q came out as %q", b, got.Result)
		}
	}
}

func txHandles(s *txScene) {
	for _, handle := range []any{nil, 7, "begin"} {
		_, err := s.Store.(driver.TxStore).EnqueueTx(s.Ctx, handle, []sojourn.Job{anonymous()})
		s.Refused(err, sojourn.CodeInvalid, "no transaction")
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
	c := s.Running(sojourn.Key("k"))
	o := kit.Completed(c)
	o.Result, o.ResultType, o.Log = []byte(`{"ok":true}`), "application/json", []sojourn.LogLine{{Level: "INFO", Text: "done"}}
	x := s.begin()
	x.insert(1)
	s.Must(x.finish(o), "FinishTx")
	s.State(c.Job.ID, sojourn.Running)
	s.rows()
	x.commit()
	s.rows(1)
	j := s.State(c.Job.ID, sojourn.Completed)
	kit.Same(s.Scene, "result", string(j.Result), `{"ok":true}`)
	s.At("finished_at", j.FinishedAt, s.Now())
	s.InFlight(0, "after the commit")
	s.Happened(c.Job.ID, "completed")
	lines, err := s.Store.Log(s.Ctx, c.Job.ID)
	s.Must(err, "Log")
	kit.Same(s.Scene, "log lines", len(lines), 1)
	s.Reports(o, driver.FinishRepeated)
	// The worker reports an error for a handler that it knows to have used a transaction, in case
	// of a rollback.
	f := s.Reports(kit.Failure(c), driver.FinishLost)
	kit.Same(s.Scene, "state", f.State, sojourn.Completed)
	kit.Same(s.Scene, "reason", f.Reason, driver.LostEnded)
	if e := s.Put(s.Job(sojourn.Key("k"))); e.Duplicate {
		s.Fatalf("the key is not free: %+v", e)
	}
}

func txFinishBack(s *txScene) {
	for _, report := range []func(driver.Claimed) sojourn.Outcome{kit.Completed, kit.Failure} {
		c := s.Running()
		x := s.begin()
		x.insert(1)
		s.Must(x.finish(kit.Completed(c)), "FinishTx")
		x.rollback()
		s.rows()
		s.State(c.Job.ID, sojourn.Running)
		s.Extends(c.Lease, true)
		s.Reports(report(c), driver.FinishApplied)
	}
}

func txFinishLost(s *txScene) {
	cancelled := s.Running()
	s.Cancel(cancelled.Job.ID)
	taken := s.Running()
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	kit.Same(s.Scene, "the job taken over", s.Claim(kit.By("w2")).Job.ID, taken.Job.ID)
	stranger := taken
	stranger.Lease.Epoch, stranger.Lease.Worker = 2, "w3"
	unknown := taken
	unknown.Lease.ID = 1 << 40
	for _, c := range []driver.Claimed{cancelled, taken, stranger, unknown} {
		x := s.begin()
		x.insert(1)
		err := x.finish(kit.Completed(c))
		s.Is(err, sojourn.ErrLeaseLost, "a lost lease")
		s.Refused(err, sojourn.CodeLeaseLost, "a lost lease")
		x.rollback()
	}
	s.rows()
	s.State(cancelled.Job.ID, sojourn.Cancelled)
	kit.Same(s.Scene, "the owner", s.State(taken.Job.ID, sojourn.Running).Worker, "w2")
}

func txFinishTwice(s *txScene) {
	c := s.Running()
	x := s.begin()
	x.insert(1)
	s.Must(x.finish(kit.Completed(c)), "FinishTx")
	s.Is(x.finish(kit.Completed(c)), sojourn.ErrLeaseLost, "a second time in the same transaction")
	x.commit()
	x = s.begin()
	x.insert(2)
	s.Is(x.finish(kit.Completed(c)), sojourn.ErrLeaseLost, "a second time in another transaction")
	x.rollback()
	s.rows(1)
	s.State(c.Job.ID, sojourn.Completed)
	s.Happened(c.Job.ID, "completed")
}

func txFinishRefused(s *txScene) {
	c := s.Running()
	o := kit.Completed(c)
	o.Result = bytes.Repeat([]byte("x"), sojourn.DefaultMaxBytes+1)
	x := s.begin()
	x.insert(1)
	s.Refused(x.finish(o), sojourn.CodeTooLarge, "a result over the limit")
	o.Result = nil
	s.Must(x.finish(o), "FinishTx after a refusal")
	x.commit()
	s.rows(1)
	s.State(c.Job.ID, sojourn.Completed)
}

func txFinishNext(s *txScene) {
	c := s.Running(sojourn.Key("k"))
	x := s.begin()
	e := x.put(anonymous(sojourn.Key("k")))
	kit.Same(s.Scene, "before the end", e.ID, c.Job.ID)
	s.Must(x.finish(kit.Completed(c)), "FinishTx")
	e = x.put(anonymous(sojourn.Key("k")))
	if e.Duplicate || e.ID == c.Job.ID {
		s.Fatalf("after the end the key answered %+v", e)
	}
	x.commit()
	s.State(c.Job.ID, sojourn.Completed)
	s.State(e.ID, sojourn.Ready)
	kit.Same(s.Scene, "the next", s.Claim().Job.ID, e.ID)
}

func txFinishThen(s *txScene) {
	c := s.Running()
	next := []sojourn.Job{anonymous(), anonymous(sojourn.DependsOn(c.Job.ID)), anonymous(sojourn.Delay(time.Hour))}
	for _, end := range []func(tx){tx.rollback, tx.commit} {
		x := s.begin()
		s.Must(x.finish(kit.Follow(c, next...)), "FinishTx")
		end(x)
	}
	s.State(c.Job.ID, sojourn.Completed)
	kit.Same(s.Scene, "jobs after the commit", len(s.Find(sojourn.Filter{Limit: 10})), 4)
	kit.Same(s.Scene, "the job that waits", len(s.Find(sojourn.Filter{States: []sojourn.State{sojourn.Scheduled}})), 1)
}

func txCallers(s *txScene) {
	alice, mallory := s.Tenant("alice", kit.Everything), s.Tenant("mallory", access.Grant{Verbs: []access.Verb{access.VerbEnqueue}, Queue: "attack-*"})
	store := s.Store.(driver.TxStore)
	own := alice.Job(sojourn.Key("k"))
	x := s.begin()
	for _, t := range []*kit.Scene{s.Scene, mallory} {
		foreign := *sojourn.NewJob(kit.Kind, nil, sojourn.Queue("attack-1"))
		foreign.ID = own.ID
		_, err := store.EnqueueTx(t.Ctx, x.Handle, []sojourn.Job{foreign})
		s.Refused(err, sojourn.CodeInvalid, "an id of another caller")
	}
	es, err := store.EnqueueTx(alice.Ctx, x.Handle, []sojourn.Job{anonymous(), own, anonymous()})
	s.Must(err, "EnqueueTx with leased and drawn ids")
	x.commit()
	for _, e := range es {
		s.State(e.ID, sojourn.Ready)
	}
	kit.Same(s.Scene, "a repeat outside", alice.Put(own).Duplicate, true)
	x = s.begin()
	stolen := anonymous(sojourn.Key("k"), sojourn.Queue("attack-1"), sojourn.OnKeyConflict(sojourn.Replace))
	_, err = store.EnqueueTx(mallory.Ctx, x.Handle, []sojourn.Job{stolen})
	s.Is(err, sojourn.ErrConflict, "the key of a job out of reach")
	x.rollback()
}

func txFinishWithJobs(s *txScene) {
	c := s.Running()
	waiting, next := s.Enqueue(sojourn.DependsOn(c.Job.ID)), s.Job(sojourn.DependsOn(c.Job.ID))
	x := s.begin()
	s.Must(x.finish(kit.Follow(c, next)), "FinishTx")
	x.rollback()
	s.Gone(next.ID)
	s.State(waiting, sojourn.Blocked)
	x = s.begin()
	s.Must(x.finish(kit.Follow(c, next)), "FinishTx")
	s.State(waiting, sojourn.Blocked)
	x.commit()
	for _, id := range []sojourn.ID{waiting, next.ID} {
		s.State(id, sojourn.Ready)
	}
}

func txFinishParent(s *txScene) {
	parent := s.Enqueue()
	waiting := s.EnqueueMany(700, sojourn.DependsOn(parent))
	following := s.EnqueueMany(700, sojourn.WithDependency(sojourn.Dependency{Jobs: []sojourn.ID{parent}, OnFailure: sojourn.CancelOnFailure}))
	s.Advance(sojourn.IDLife + time.Minute) // its id is old enough for a purge
	c := s.Claim()
	x := s.begin()
	s.Must(x.finish(kit.Completed(c)), "FinishTx")
	s.State(waiting[0], sojourn.Blocked)
	x.commit()
	s.Must(s.Edit(parent, sojourn.Edit{Action: sojourn.EditPurge}).Err, "purge") // before a sweep has released them
	s.Gone(parent)
	s.Sweep()
	counts := s.Queue("default").Counts
	kit.Same(s.Scene, "ready", counts[sojourn.Ready], int64(len(waiting)+len(following)))
	kit.Same(s.Scene, "cancelled", counts[sojourn.Cancelled], 0)
}

func txFinishMember(s *txScene) {
	flows := workflow.Of(sojourn.NewClient(s.Store))
	m := anonymous()
	_, err := flows.Start(s.Ctx, workflow.New("w").Add("m", &m))
	s.Must(err, "Start")
	c := s.Claim()
	x := s.begin()
	s.Must(x.finish(kit.Completed(c)), "FinishTx")
	x.rollback()
	w, err := flows.Get(s.Ctx, "w")
	s.Must(err, "Get")
	kit.Same(s.Scene, "the state after a rollback", w.State, workflow.Running)
	x = s.begin()
	s.Must(x.finish(kit.Completed(c)), "FinishTx")
	x.commit()
	for late := time.After(kit.Patience); ; {
		w, err := flows.Get(s.Ctx, "w")
		s.Must(err, "Get")
		if w.State == workflow.Completed {
			return
		}
		select {
		case <-late:
			s.Fatalf("the workflow is %s %v after the commit", w.State, kit.Patience)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

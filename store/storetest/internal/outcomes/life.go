package outcomes

import (
	"errors"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var lifeTrials = []kit.Trial{
	{Name: "status", Law: "A store tells what it is, its limits and its clock.", Covers: "inv:A2 spec:P13 inv:K1 spec:B6", Run: status},
	{Name: "calls about nothing", Law: "Every batch call takes an empty batch, and lists of nothing are empty.", Covers: "inv:A7", Run: nothing},
	{Name: "close", Law: "After Close every call returns ErrClosed, and a second Close is harmless.", Covers: "spec:S11 inv:J1", Run: closed},
	{Name: "the whole way of a payment", Law: "Request, crash, retry, early answer, late answer and duplicate of one order end in one completion.",
		Covers: "spec:A1 spec:H1 spec:H4 spec:H5 spec:S6 spec:S7 spec:S8 inv:U4 inv:L7", Run: payment},
	{Name: "rules:E3 times are the store's", Law: "Outcomes carry durations; the store adds its own clock when it takes them.",
		Covers: "rules:E3 spec:P13 inv:K2 tr:F2 tr:F7", Run: storeTimes},
	{Name: "no handler ever sees another job's bytes", Law: "What a claim gives belongs to the caller: changing it changes nothing stored.",
		Covers: "spec:J3", Run: ownBytes},
}

func status(s *kit.Scene) {
	s.Advance(time.Hour)
	st, err := s.Store.Status(s.Ctx)
	s.Must(err, "Status")
	s.At("now", st.Now, s.Now())
	kit.Same(s, "max_bytes", st.MaxBytes, sojourn.DefaultMaxBytes)
	for what, v := range kit.InOrder(map[string]string{"store": st.Store, "version": st.Version, "durability": st.Durability, "instance": st.Instance, "clock": st.Clock}) {
		if v == "" {
			s.Errorf("Status has no %s: %+v", what, st)
		}
	}
	switch st.Durability {
	case "fsync", "relaxed", "memory":
	default:
		s.Errorf("the durability is %q", st.Durability)
	}
	s.Enqueue()
	after, err := s.Store.Status(s.Ctx)
	s.Must(err, "Status")
	if after.Commits <= st.Commits {
		s.Errorf("%d commits before an enqueue and %d after it", st.Commits, after.Commits)
	}
}

func nothing(s *kit.Scene) {
	es, err := s.Store.Enqueue(s.Ctx, nil, false)
	s.Must(err, "Enqueue of nothing")
	fs, err := s.Store.Finish(s.Ctx, nil)
	s.Must(err, "Finish of nothing")
	lost, err := s.Store.Extend(s.Ctx, nil)
	s.Must(err, "Extend of nothing")
	errs, err := s.Store.Save(s.Ctx, nil)
	s.Must(err, "Save of nothing")
	rs, err := s.Store.Respond(s.Ctx, nil)
	s.Must(err, "Respond of nothing")
	kit.Same(s, "answers", len(es)+len(fs)+len(lost)+len(errs)+len(rs), 0)
	kit.Same(s, "jobs", len(s.Find(sojourn.Filter{})), 0)
	kit.Same(s, "responses", len(s.Inbox(sojourn.InboxFilter{})), 0)
	qs, err := s.Store.Queues(s.Ctx)
	s.Must(err, "Queues")
	kit.Same(s, "queues", len(qs), 0)
	s.ClaimNone("there is nothing", kit.From("no", "such", "queue"))
}

func closed(s *kit.Scene) {
	j := s.Job()
	s.Put(j)
	s.Closed = true
	s.Must(s.Store.Close(), "Close")
	ctx := s.Ctx
	calls := map[string]func() error{
		"IDs":     func() error { _, err := s.Store.IDs(ctx, 1); return err },
		"Enqueue": func() error { _, err := s.Store.Enqueue(ctx, []sojourn.Job{j}, false); return err },
		"Claim":   func() error { _, err := s.Store.Claim(ctx, s.Request()); return err },
		"Extend": func() error {
			_, err := s.Store.Extend(ctx, []sojourn.Lease{{ID: j.ID, Epoch: 1, Worker: "w1"}})
			return err
		},
		"Save": func() error {
			_, err := s.Store.Save(ctx, []driver.Saved{{Lease: sojourn.Lease{ID: j.ID, Epoch: 1, Worker: "w1"}}})
			return err
		},
		"Finish": func() error {
			_, err := s.Store.Finish(ctx, []sojourn.Outcome{kit.Completed(driver.Claimed{})})
			return err
		},
		"Respond": func() error { _, err := s.Store.Respond(ctx, []sojourn.Response{s.Answer("k")}); return err },
		"Edit": func() error {
			_, err := s.Store.Edit(ctx, sojourn.Filter{IDs: []sojourn.ID{j.ID}}, kit.RedriveEdit)
			return err
		},
		"Find":        func() error { _, err := s.Store.Find(ctx, sojourn.Filter{}); return err },
		"History":     func() error { _, err := s.Store.History(ctx, j.ID, 0, 0); return err },
		"Log":         func() error { _, err := s.Store.Log(ctx, j.ID); return err },
		"Queues":      func() error { _, err := s.Store.Queues(ctx); return err },
		"SetQueue":    func() error { return sojourn.NewClient(s.Store).Queues().Set(ctx, "q", sojourn.QueueSettings{}) },
		"ForgetQueue": func() error { _, err := s.Store.ForgetQueue(ctx, "q", sojourn.ForgetOptions{}); return err },
		"Inbox":       func() error { _, err := s.Store.Inbox(ctx, sojourn.InboxFilter{}); return err },
		"Sweep":       func() error { _, err := s.Store.Sweep(ctx, 10); return err },
		"Status":      func() error { _, err := s.Store.Status(ctx); return err },
	}
	for what, call := range kit.InOrder(calls) {
		if err := call(); !errors.Is(err, sojourn.ErrClosed) {
			s.Errorf("%s after Close answered %v, want ErrClosed", what, err)
		}
	}
	if err := s.Store.Close(); err != nil && !errors.Is(err, sojourn.ErrClosed) {
		s.Errorf("a second Close answered %v", err)
	}
}

func payment(s *kit.Scene) {
	order := []sojourn.Option{sojourn.Key("order-42"), kit.Steady(time.Minute), sojourn.Timeout(time.Hour)}
	id := s.Enqueue(order...)
	s.Put(s.Job(order...)) // the event is delivered twice
	s.Claim()              // sends its request and dies
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	c := s.Claim(kit.By("w2")) // sends it again, with the same idempotency key
	s.Finish(kit.Await(c, 10*time.Minute), sojourn.Awaiting)
	s.Swept(10*time.Minute, driver.Swept{TimedOut: 1})
	s.Respond("order-42", kit.Message("webhook", "evt_1"), kit.Body("approved")) // an answer after all: no third request
	s.Respond("order-42", kit.Message("webhook", "evt_1"), kit.Body("approved"))
	d := s.Claim(kit.By("w3"))
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "approved")
	s.Respond("order-42", kit.Message("webhook", "evt_2"), kit.Body("approved again"))
	s.Finish(kit.Completed(d), sojourn.Completed)
	s.Respond("order-42", kit.Message("webhook", "evt_3"), kit.Body("and again"))
	s.Counters(id, 3, 1, 1)
	s.Happened(id, "lost", "await", "timed_out", "responded", "completed")
	outcomes := map[sojourn.ResponseOutcome]int{}
	for _, r := range s.Inbox(sojourn.InboxFilter{Job: id}) {
		outcomes[r.Outcome]++
	}
	kit.Same(s, "the outcomes", kit.Text(outcomes), kit.Text(map[sojourn.ResponseOutcome]int{sojourn.Applied: 1, sojourn.Late: 2}))
	kit.Same(s, "jobs", len(s.Find(sojourn.Filter{})), 1)
}

func storeTimes(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Minute))
	o := kit.Snooze(c, time.Minute)
	s.Advance(20 * time.Second) // the report is on its way
	s.At("run_at", s.Finish(o, sojourn.Scheduled).RunAt, s.Now().Add(time.Minute))
	s.Advance(time.Minute)
	o = kit.Failure(s.Claim())
	s.Advance(20 * time.Second)
	s.At("run_at", s.Finish(o, sojourn.Scheduled).RunAt, s.Now().Add(time.Minute))
}

func ownBytes(s *kit.Scene) {
	c := s.Running(kit.Args("mine"), sojourn.Tags("t"), sojourn.Meta("k", "v"))
	before := s.Picture(c.Job.ID)
	c.Job.Args[0], c.Job.Tags[0], c.Job.Meta["k"] = 'X', "X", "X"
	s.Unchanged(c.Job.ID, before, "writing into a claimed job")
	b := []byte("checkpoint")
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Checkpoint: b}), "Save")
	b[0] = 'X'
	kit.Same(s, "checkpoint", string(s.Get(c.Job.ID).Checkpoint), "checkpoint")
}

package storetest

import (
	"errors"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var lifeTrials = []trial{
	{"status", "A store tells what it is, its limits and its clock.", "inv:A2 spec:P13 inv:K1 spec:B6", status},
	{"calls about nothing", "Every batch call takes an empty batch, and lists of nothing are empty.", "inv:A7", nothing},
	{"close", "After Close every call returns ErrClosed, and a second Close is harmless.", "spec:S11 inv:J1", closed},
	{"the whole way of a payment", "Request, crash, retry, early answer, late answer and duplicate of one order end in one completion.",
		"spec:A1 spec:H1 spec:H4 spec:H5 spec:S6 spec:S7 spec:S8 inv:U4 inv:L7", payment},
	{"rules:E3 times are the store's", "Outcomes carry durations; the store adds its own clock when it takes them.", "rules:E3 spec:P13 inv:K2 tr:F2 tr:F7", storeTimes},
	{"no handler ever sees another job's bytes", "What a claim gives belongs to the caller: changing it changes nothing stored.", "spec:J3", ownBytes},
}

func status(s *scene) {
	s.advance(time.Hour)
	st, err := s.store.Status(s.ctx)
	s.must(err, "Status")
	s.at("now", st.Now, s.now())
	same(s, "max_bytes", st.MaxBytes, sojourn.DefaultMaxBytes)
	for what, v := range inOrder(map[string]string{"store": st.Store, "version": st.Version, "durability": st.Durability, "instance": st.Instance, "clock": st.Clock}) {
		if v == "" {
			s.Errorf("Status has no %s: %+v", what, st)
		}
	}
	switch st.Durability {
	case "fsync", "relaxed", "memory":
	default:
		s.Errorf("the durability is %q", st.Durability)
	}
	s.enqueue()
	after, err := s.store.Status(s.ctx)
	s.must(err, "Status")
	if after.Commits <= st.Commits {
		s.Errorf("%d commits before an enqueue and %d after it", st.Commits, after.Commits)
	}
}

func nothing(s *scene) {
	es, err := s.store.Enqueue(s.ctx, nil, false)
	s.must(err, "Enqueue of nothing")
	fs, err := s.store.Finish(s.ctx, nil)
	s.must(err, "Finish of nothing")
	lost, err := s.store.Extend(s.ctx, nil)
	s.must(err, "Extend of nothing")
	errs, err := s.store.Save(s.ctx, nil)
	s.must(err, "Save of nothing")
	rs, err := s.store.Respond(s.ctx, nil)
	s.must(err, "Respond of nothing")
	same(s, "answers", len(es)+len(fs)+len(lost)+len(errs)+len(rs), 0)
	same(s, "jobs", len(s.find(sojourn.Filter{})), 0)
	same(s, "responses", len(s.inbox(sojourn.InboxFilter{})), 0)
	qs, err := s.store.Queues(s.ctx)
	s.must(err, "Queues")
	same(s, "queues", len(qs), 0)
	s.claimNone("there is nothing", from("no", "such", "queue"))
}

func closed(s *scene) {
	j := s.job()
	s.put(j)
	s.closed = true
	s.must(s.store.Close(), "Close")
	ctx := s.ctx
	calls := map[string]func() error{
		"IDs":     func() error { _, err := s.store.IDs(ctx, 1); return err },
		"Enqueue": func() error { _, err := s.store.Enqueue(ctx, []sojourn.Job{j}, false); return err },
		"Claim":   func() error { _, err := s.store.Claim(ctx, s.request()); return err },
		"Extend": func() error {
			_, err := s.store.Extend(ctx, []sojourn.Lease{{ID: j.ID, Epoch: 1, Worker: "w1"}})
			return err
		},
		"Save": func() error {
			_, err := s.store.Save(ctx, []driver.Saved{{Lease: sojourn.Lease{ID: j.ID, Epoch: 1, Worker: "w1"}}})
			return err
		},
		"Finish": func() error {
			_, err := s.store.Finish(ctx, []sojourn.Outcome{completed(driver.Claimed{})})
			return err
		},
		"Respond": func() error { _, err := s.store.Respond(ctx, []sojourn.Response{s.answer("k")}); return err },
		"Edit": func() error {
			_, err := s.store.Edit(ctx, sojourn.Filter{IDs: []sojourn.ID{j.ID}}, redriveEdit)
			return err
		},
		"Find":        func() error { _, err := s.store.Find(ctx, sojourn.Filter{}); return err },
		"History":     func() error { _, err := s.store.History(ctx, j.ID, 0, 0); return err },
		"Log":         func() error { _, err := s.store.Log(ctx, j.ID); return err },
		"Queues":      func() error { _, err := s.store.Queues(ctx); return err },
		"SetQueue":    func() error { return sojourn.NewClient(s.store).Queues().Set(ctx, "q", sojourn.QueueSettings{}) },
		"ForgetQueue": func() error { return s.store.ForgetQueue(ctx, "q") },
		"Inbox":       func() error { _, err := s.store.Inbox(ctx, sojourn.InboxFilter{}); return err },
		"Sweep":       func() error { _, err := s.store.Sweep(ctx, 10); return err },
		"Status":      func() error { _, err := s.store.Status(ctx); return err },
	}
	for what, call := range inOrder(calls) {
		if err := call(); !errors.Is(err, sojourn.ErrClosed) {
			s.Errorf("%s after Close answered %v, want ErrClosed", what, err)
		}
	}
	if err := s.store.Close(); err != nil && !errors.Is(err, sojourn.ErrClosed) {
		s.Errorf("a second Close answered %v", err)
	}
}

func payment(s *scene) {
	order := []sojourn.Option{sojourn.Key("order-42"), steady(time.Minute), sojourn.Timeout(time.Hour)}
	id := s.enqueue(order...)
	s.put(s.job(order...)) // the event is delivered twice
	s.claim()              // sends its request and dies
	s.swept(lease, driver.Swept{Lost: 1})
	c := s.claim(by("w2")) // sends it again, with the same idempotency key
	s.finish(await(c, 10*time.Minute), sojourn.Awaiting)
	s.swept(10*time.Minute, driver.Swept{TimedOut: 1})
	s.respond("order-42", message("webhook", "evt_1"), body("approved")) // an answer after all: no third request
	s.respond("order-42", message("webhook", "evt_1"), body("approved"))
	d := s.claim(by("w3"))
	same(s, "the answer", string(s.inHand(d).Body), "approved")
	s.respond("order-42", message("webhook", "evt_2"), body("approved again"))
	s.finish(completed(d), sojourn.Completed)
	s.respond("order-42", message("webhook", "evt_3"), body("and again"))
	s.counters(id, 3, 1, 1)
	s.happened(id, "lost", "await", "timed_out", "responded", "completed")
	outcomes := map[sojourn.ResponseOutcome]int{}
	for _, r := range s.inbox(sojourn.InboxFilter{Job: id}) {
		outcomes[r.Outcome]++
	}
	same(s, "the outcomes", text(outcomes), text(map[sojourn.ResponseOutcome]int{sojourn.Applied: 1, sojourn.Late: 2}))
	same(s, "jobs", len(s.find(sojourn.Filter{})), 1)
}

func storeTimes(s *scene) {
	c := s.running(steady(time.Minute))
	o := snooze(c, time.Minute)
	s.advance(20 * time.Second) // the report is on its way
	s.at("run_at", s.finish(o, sojourn.Scheduled).RunAt, s.now().Add(time.Minute))
	s.advance(time.Minute)
	o = failure(s.claim())
	s.advance(20 * time.Second)
	s.at("run_at", s.finish(o, sojourn.Scheduled).RunAt, s.now().Add(time.Minute))
}

func ownBytes(s *scene) {
	c := s.running(args("mine"), sojourn.Tags("t"), sojourn.Meta("k", "v"))
	before := s.picture(c.Job.ID)
	c.Job.Args[0], c.Job.Tags[0], c.Job.Meta["k"] = 'X', "X", "X"
	s.unchanged(c.Job.ID, before, "writing into a claimed job")
	b := []byte("checkpoint")
	s.must(s.save(driver.Saved{Lease: c.Lease, Checkpoint: b}), "Save")
	b[0] = 'X'
	same(s, "checkpoint", string(s.get(c.Job.ID).Checkpoint), "checkpoint")
}

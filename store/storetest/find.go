package storetest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var findTrials = []trial{
	{"find by each field", "Every field of a filter narrows the answer, and all of them together.", "spec:O12 spec:P12", findFields},
	{"find page by page", "Pages in either direction give every job once, in the order of the ids.", "spec:O12 spec:G2", findPages},
	{"find failed jobs", "Failed jobs are found by their reason, newest first, page by page.", "spec:R6", findFailed},
	{"find by key", "Kind and key give the live job, else the newest final one.", "spec:J5 spec:P12", findKey},
	{"find by key without a kind", "A key alone gives the holder of each kind; GetByKey the live one, and refuses to choose among several.", "spec:J5 spec:P12", findKeyOfAnyKind},
	{"find heads", "Without Full the bytes are left out; everything else is there.", "spec:J27 spec:O12", findHeads},
	{"find changes nothing", "Reading is only reading.", "spec:O2", findReads},
	{"find refuses bad input", "A malformed filter is refused with a code.", "spec:A16 spec:A3", findBad},
	{"the client over the store", "Get, GetByKey, Cancel and Redrive of a Client answer as they promise.", "spec:P12 spec:S11 rules:A7", findClient},
}

func findFields(s *scene) {
	t0 := s.now()
	a := s.enqueue(sojourn.Group("g1"), sojourn.Tags("x", "y"))
	s.advance(time.Minute)
	b := s.enqueue(ofKind("refund"), sojourn.Tags("y"))
	s.advance(time.Minute)
	c := s.enqueue(sojourn.Queue("q2"), sojourn.Group("g2"), sojourn.Delay(time.Hour))
	d := s.final(sojourn.Failed, ofKind("other"), sojourn.Queue("q3")).Job.ID
	s.finds(sojourn.Filter{}, a, b, c, d)
	s.finds(sojourn.Filter{IDs: []sojourn.ID{d, a, 1 << 40, a}}, a, d)
	s.finds(sojourn.Filter{Kind: charge}, a, c)
	s.finds(sojourn.Filter{Queue: line}, a, b)
	s.finds(sojourn.Filter{Group: "g2"}, c)
	s.finds(sojourn.Filter{Tag: "y"}, a, b)
	s.finds(sojourn.Filter{Tag: "x"}, a)
	s.finds(sojourn.Filter{States: []sojourn.State{sojourn.Scheduled}}, c)
	s.finds(sojourn.Filter{States: []sojourn.State{sojourn.Ready, sojourn.Failed}}, a, b, d)
	s.finds(sojourn.Filter{Reason: "declined"}, d)
	s.finds(sojourn.Filter{CreatedAfter: t0.Add(30 * time.Second)}, b, c, d)
	s.finds(sojourn.Filter{CreatedBefore: t0.Add(90 * time.Second)}, a, b)
	s.finds(sojourn.Filter{CreatedAfter: t0.Add(30 * time.Second), CreatedBefore: t0.Add(90 * time.Second)}, b)
	s.finds(sojourn.Filter{IDs: []sojourn.ID{a, b}, Kind: "refund", Tag: "y", Queue: line, States: []sojourn.State{sojourn.Ready}}, b)
	s.finds(sojourn.Filter{Kind: "%"})
	s.finds(sojourn.Filter{Tag: "y' OR 1=1 --"})
	for _, tag := range []string{"%", "_", "%x%", `x","y`, "!x"} {
		s.finds(sojourn.Filter{Tag: tag})
	}
	s.finds(sojourn.Filter{Kind: "CHARGE_CARD"})
}

func findFailed(s *scene) {
	var ids []sojourn.ID
	for range 3 {
		ids = append(ids, s.final(sojourn.Failed).Job.ID)
		s.final(sojourn.Cancelled)
	}
	f := sojourn.Filter{States: []sojourn.State{sojourn.Failed}, Reason: "declined", Newest: true, Limit: 2}
	s.finds(f, ids[2], ids[1])
	f.After = ids[1].String()
	s.finds(f, ids[0])
	f.After = ids[0].String()
	s.finds(f)
	s.finds(sojourn.Filter{States: []sojourn.State{sojourn.Failed}, Reason: "other"})
}

func findPages(s *scene) {
	ids := s.enqueueMany(25, sojourn.Tags("t"))
	done := s.final(sojourn.Completed, ofKind("x"), sojourn.Tags("t")).Job.ID
	ids = append(ids, done)
	for _, newest := range []bool{false, true} {
		want := slices.Clone(ids)
		if newest {
			slices.Reverse(want)
		}
		var got []sojourn.ID
		f := sojourn.Filter{Tag: "t", Limit: 7, Newest: newest}
		for {
			page := s.find(f)
			if len(page) == 0 {
				break
			}
			if len(page) > 7 {
				s.Fatalf("a page of 7 has %d jobs", len(page))
			}
			got = append(got, page...)
			f.After = page[len(page)-1].String()
		}
		if !slices.Equal(got, want) {
			s.Fatalf("the pages (newest %v) gave %v, want %v", newest, got, want)
		}
	}
	for range 4 {
		s.enqueueMany(30)
	}
	same(s, "the default limit", len(s.find(sojourn.Filter{})), 100)
	same(s, "a larger limit", len(s.find(sojourn.Filter{Limit: sojourn.MaxFind})), 146)
}

func findKey(s *scene) {
	first := s.final(sojourn.Completed, sojourn.Key("k")).Job.ID
	s.finds(sojourn.Filter{Kind: charge, Key: "k"}, first)
	s.advance(time.Second)
	second := s.final(sojourn.Failed, sojourn.Key("k")).Job.ID
	s.finds(sojourn.Filter{Kind: charge, Key: "k"}, second)
	s.enqueue(ofKind("refund"), sojourn.Key("k"))
	live := s.enqueue(sojourn.Key("k"))
	s.finds(sojourn.Filter{Kind: charge, Key: "k"}, live)
	s.finds(sojourn.Filter{Kind: charge, Key: "K"})
	s.cancel(live)
	s.finds(sojourn.Filter{Kind: charge, Key: "k"}, live)
}

func findKeyOfAnyKind(s *scene) {
	c := sojourn.NewClient(s.store)
	holder := func(want sojourn.ID, kinds ...string) {
		s.Helper()
		j, err := c.GetByKey(s.ctx, "k", kinds...)
		s.must(err, "GetByKey")
		same(s, "the holder of the key", j.ID, want)
	}
	_, err := c.GetByKey(s.ctx, "k")
	s.is(err, sojourn.ErrNotFound, "GetByKey of an unknown key")
	_, err = c.GetByKey(s.ctx, "")
	s.refused(err, sojourn.CodeInvalid, "GetByKey without a key")
	refund := s.final(sojourn.Failed, ofKind("refund"), sojourn.Key("k")).Job.ID
	holder(refund)
	s.advance(time.Second)
	old := s.final(sojourn.Completed, sojourn.Key("k"), args("bytes")).Job.ID
	s.enqueue(ofKind("another"), sojourn.Key("K"))
	s.finds(sojourn.Filter{Key: "k"}, refund, old)
	s.finds(sojourn.Filter{Key: "k", Newest: true}, old, refund)
	s.finds(sojourn.Filter{Key: "k", States: []sojourn.State{sojourn.Failed}}, refund)
	s.finds(sojourn.Filter{Key: "absent"})
	holder(old) // no live one: the newest of all kinds, complete
	j, err := c.GetByKey(s.ctx, "k", charge, "another")
	s.must(err, "GetByKey")
	same(s, "args", string(j.Args), "bytes")
	first := s.enqueue(ofKind("refund"), sojourn.Key("k"))
	holder(first)
	holder(old, charge)
	second := s.enqueue(sojourn.Key("k"))
	s.finds(sojourn.Filter{Key: "k"}, first, second)
	holder(first, "refund", "another")
	for _, kinds := range [][]string{nil, {charge, "refund"}} {
		_, err = c.GetByKey(s.ctx, "k", kinds...)
		s.is(err, sojourn.ErrConflict, "GetByKey of a key with two live jobs")
		for _, name := range []string{first.String(), second.String(), charge, "refund"} {
			if !strings.Contains(err.Error(), name) {
				s.Fatalf("the conflict %q does not name %s", err, name)
			}
		}
	}
	edited, err := s.store.Edit(s.ctx, sojourn.Filter{Key: "k"}, sojourn.Edit{Action: sojourn.EditCancel})
	s.must(err, "Edit by key")
	same(s, "the jobs that were cancelled", edited.Changed, 2)
	holder(second)
}

func findHeads(s *scene) {
	s.resumed("k", args("bytes"))
	c := s.claim()
	s.must(s.save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("half")}), "Save")
	jobs, err := s.store.Find(s.ctx, sojourn.Filter{IDs: []sojourn.ID{c.Job.ID}})
	s.must(err, "Find")
	head, full := jobs[0], s.get(c.Job.ID)
	if len(head.Args)+len(head.Checkpoint)+len(head.Result)+len(head.Responses) != 0 {
		s.Fatalf("a head carries bytes: %s", text(head))
	}
	if string(full.Args) != "bytes" || string(full.Checkpoint) != "half" || len(full.Responses) != 1 {
		s.Fatalf("the full job lacks bytes: %s", text(full))
	}
	full.Args, full.Checkpoint, full.Response, full.Responses = nil, nil, nil, nil
	head.Args, head.Checkpoint, head.Response, head.Responses = nil, nil, nil, nil
	same(s, "the rest of the head", text(head), text(full))
}

func findReads(s *scene) {
	due := s.enqueue(sojourn.Delay(time.Second))
	c := s.running()
	s.awaiting(sojourn.Key("k"))
	s.advance(48 * time.Hour)
	before := s.picture(c.Job.ID)
	s.find(sojourn.Filter{})
	_, err := s.store.Queues(s.ctx)
	s.must(err, "Queues")
	_, err = s.store.Status(s.ctx)
	s.must(err, "Status")
	s.inbox(sojourn.InboxFilter{})
	s.unchanged(c.Job.ID, before, "reading")
	s.state(due, sojourn.Scheduled)
}

func findBad(s *scene) {
	for what, f := range inOrder(map[string]sojourn.Filter{
		"a negative limit": {Limit: -1},
		"a limit of 1,001": {Limit: sojourn.MaxFind + 1},
		"a negative wait":  {Wait: -1},
		"1,001 ids":        {IDs: make([]sojourn.ID, sojourn.MaxFind+1)},
	}) {
		_, err := s.store.Find(s.ctx, f)
		s.refused(err, sojourn.CodeInvalid, what)
	}
}

func findClient(s *scene) {
	c := sojourn.NewClient(s.store)
	_, err := c.Get(s.ctx, 1<<40)
	s.is(err, sojourn.ErrNotFound, "Get of an unknown id")
	_, err = c.GetByKey(s.ctx, "k", charge)
	s.is(err, sojourn.ErrNotFound, "GetByKey of an unknown key")
	s.is(c.As("ops").Cancel(s.ctx, 1<<40, ""), sojourn.ErrNotFound, "Cancel of an unknown id")
	j := sojourn.NewJob(charge, []byte(`"in"`), sojourn.Key("k"))
	e, err := c.Enqueue(s.ctx, j)
	s.must(err, "Enqueue")
	same(s, "the id written into the job", j.ID, e.ID)
	again, err := c.Enqueue(s.ctx, j) // the retry of a caller who never heard an answer
	s.must(err, "Enqueue")
	same(s, "the id of the repeat", again.ID, e.ID)
	same(s, "duplicate", again.Duplicate, true)
	other := sojourn.NewJob(charge, []byte(`"other"`), sojourn.Key("k"))
	for range 3 { // the answer names the job that has the key, and the repeated call is still the same
		dup, err := c.Enqueue(s.ctx, other)
		s.must(err, "Enqueue")
		same(s, "the id of the duplicate", dup.ID, e.ID)
		same(s, "the id written into the duplicate", other.ID, e.ID)
	}
	other.ID = 0 // as a new job
	dup, err := c.Enqueue(s.ctx, other)
	s.must(err, "Enqueue")
	same(s, "the id of a new call", dup.ID, e.ID)
	got, err := c.GetByKey(s.ctx, "k", charge)
	s.must(err, "GetByKey")
	same(s, "args", string(got.Args), `"in"`)
	s.must(c.As("ops").Cancel(s.ctx, e.ID, "asked"), "Cancel")
	s.must(c.As("ops").Cancel(s.ctx, e.ID, "asked"), "a second Cancel")
	got, err = c.Wait(s.ctx, e.ID)
	s.must(err, "Wait")
	same(s, "state", got.State, sojourn.Cancelled)
	redrive := sojourn.Edit{Action: sojourn.EditRedrive, Generation: 1}
	_, err = c.As("ops").Jobs().Edit(s.ctx, e.ID, redrive)
	s.must(err, "Redrive")
	_, err = c.As("ops").Jobs().Edit(s.ctx, e.ID, redrive)
	s.is(err, sojourn.ErrConflict, "a repeated Redrive")
	s.advance(sojourn.IDLife + time.Minute) // the client draws a new block by itself
	fresh := sojourn.NewJob(charge, nil)
	_, err = c.Enqueue(s.ctx, fresh)
	s.must(err, "Enqueue with an old block")
	gone, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err = c.Wait(gone, fresh.ID); err == nil {
		s.Fatal("Wait with a context that has ended gave a job that is not final")
	}
}

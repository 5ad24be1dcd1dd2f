package jobs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var findTrials = []kit.Trial{
	{Name: "find by each field", Law: "Every field of a filter narrows the answer, and all of them together.", Covers: "spec:O12 spec:P12", Run: findFields},
	{Name: "find page by page", Law: "Pages in either direction give every job once, in the order of the ids.", Covers: "spec:O12 spec:G2", Run: findPages},
	{Name: "find failed jobs", Law: "Failed jobs are found by their reason, newest first, page by page.", Covers: "spec:R6", Run: findFailed},
	{Name: "find by key", Law: "Kind and key give the live job, else the newest final one.", Covers: "spec:J5 spec:P12", Run: findKey},
	{Name: "find by key without a kind", Law: "A key alone gives the holder of each kind; GetByKey the live one, and refuses to choose among several.",
		Covers: "spec:J5 spec:P12", Run: findKeyOfAnyKind},
	{Name: "find heads", Law: "Without Full the bytes are left out; everything else is there.", Covers: "spec:J27 spec:O12", Run: findHeads},
	{Name: "find changes nothing", Law: "Reading is only reading.", Covers: "spec:O2", Run: findReads},
	{Name: "find refuses bad input", Law: "A malformed filter is refused with a code.", Covers: "spec:A16 spec:A3", Run: findBad},
	{Name: "the client over the store", Law: "Get, GetByKey, Cancel and Redrive of a Client answer as they promise.",
		Covers: "spec:P12 spec:S11 rules:A7", Run: findClient},
}

func findFields(s *kit.Scene) {
	t0 := s.Now()
	a := s.Enqueue(sojourn.Group("g1"), sojourn.Tags("x", "y"))
	s.Advance(time.Minute)
	b := s.Enqueue(kit.OfKind("refund"), sojourn.Tags("y"))
	s.Advance(time.Minute)
	c := s.Enqueue(sojourn.Queue("q2"), sojourn.Group("g2"), sojourn.Delay(time.Hour))
	d := s.Final(sojourn.Failed, kit.OfKind("other"), sojourn.Queue("q3")).Job.ID
	s.Finds(sojourn.Filter{}, a, b, c, d)
	s.Finds(sojourn.Filter{IDs: []sojourn.ID{d, a, 1 << 40, a}}, a, d)
	s.Finds(sojourn.Filter{Kind: kit.Kind}, a, c)
	s.Finds(sojourn.Filter{Queue: kit.Queue}, a, b)
	s.Finds(sojourn.Filter{Group: "g2"}, c)
	s.Finds(sojourn.Filter{Tag: "y"}, a, b)
	s.Finds(sojourn.Filter{Tag: "x"}, a)
	s.Finds(sojourn.Filter{States: []sojourn.State{sojourn.Scheduled}}, c)
	s.Finds(sojourn.Filter{States: []sojourn.State{sojourn.Ready, sojourn.Failed}}, a, b, d)
	s.Finds(sojourn.Filter{Reason: "declined"}, d)
	s.Finds(sojourn.Filter{CreatedAfter: t0.Add(30 * time.Second)}, b, c, d)
	s.Finds(sojourn.Filter{CreatedBefore: t0.Add(90 * time.Second)}, a, b)
	s.Finds(sojourn.Filter{CreatedAfter: t0.Add(30 * time.Second), CreatedBefore: t0.Add(90 * time.Second)}, b)
	s.Finds(sojourn.Filter{IDs: []sojourn.ID{a, b}, Kind: "refund", Tag: "y", Queue: kit.Queue, States: []sojourn.State{sojourn.Ready}}, b)
	s.Finds(sojourn.Filter{Kind: "%"})
	s.Finds(sojourn.Filter{Tag: "y' OR 1=1 --"})
	for _, tag := range []string{"%", "_", "%x%", `x","y`, "!x"} {
		s.Finds(sojourn.Filter{Tag: tag})
	}
	s.Finds(sojourn.Filter{Kind: "CHARGE_CARD"})
}

func findFailed(s *kit.Scene) {
	var ids []sojourn.ID
	for range 3 {
		ids = append(ids, s.Final(sojourn.Failed).Job.ID)
		s.Final(sojourn.Cancelled)
	}
	f := sojourn.Filter{States: []sojourn.State{sojourn.Failed}, Reason: "declined", Newest: true, Limit: 2}
	s.Finds(f, ids[2], ids[1])
	f.After = ids[1].String()
	s.Finds(f, ids[0])
	f.After = ids[0].String()
	s.Finds(f)
	s.Finds(sojourn.Filter{States: []sojourn.State{sojourn.Failed}, Reason: "other"})
}

func findPages(s *kit.Scene) {
	ids := s.EnqueueMany(25, sojourn.Tags("t"))
	done := s.Final(sojourn.Completed, kit.OfKind("x"), sojourn.Tags("t")).Job.ID
	ids = append(ids, done)
	for _, newest := range []bool{false, true} {
		want := slices.Clone(ids)
		if newest {
			slices.Reverse(want)
		}
		var got []sojourn.ID
		f := sojourn.Filter{Tag: "t", Limit: 7, Newest: newest}
		for {
			page := s.Find(f)
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
		s.EnqueueMany(30)
	}
	kit.Same(s, "the default limit", len(s.Find(sojourn.Filter{})), 100)
	kit.Same(s, "a larger limit", len(s.Find(sojourn.Filter{Limit: sojourn.MaxFind})), 146)
}

func findKey(s *kit.Scene) {
	first := s.Final(sojourn.Completed, sojourn.Key("k")).Job.ID
	s.Finds(sojourn.Filter{Kind: kit.Kind, Key: "k"}, first)
	s.Advance(time.Second)
	second := s.Final(sojourn.Failed, sojourn.Key("k")).Job.ID
	s.Finds(sojourn.Filter{Kind: kit.Kind, Key: "k"}, second)
	s.Enqueue(kit.OfKind("refund"), sojourn.Key("k"))
	live := s.Enqueue(sojourn.Key("k"))
	s.Finds(sojourn.Filter{Kind: kit.Kind, Key: "k"}, live)
	s.Finds(sojourn.Filter{Kind: kit.Kind, Key: "K"})
	s.Cancel(live)
	s.Finds(sojourn.Filter{Kind: kit.Kind, Key: "k"}, live)
}

func findKeyOfAnyKind(s *kit.Scene) {
	c := sojourn.NewClient(s.Store)
	holder := func(want sojourn.ID, kinds ...string) {
		s.Helper()
		j, err := c.GetByKey(s.Ctx, "k", kinds...)
		s.Must(err, "GetByKey")
		kit.Same(s, "the holder of the key", j.ID, want)
	}
	_, err := c.GetByKey(s.Ctx, "k")
	s.Is(err, sojourn.ErrNotFound, "GetByKey of an unknown key")
	_, err = c.GetByKey(s.Ctx, "")
	s.Refused(err, sojourn.CodeInvalid, "GetByKey without a key")
	refund := s.Final(sojourn.Failed, kit.OfKind("refund"), sojourn.Key("k")).Job.ID
	holder(refund)
	s.Advance(time.Second)
	old := s.Final(sojourn.Completed, sojourn.Key("k"), kit.Args("bytes")).Job.ID
	s.Enqueue(kit.OfKind("another"), sojourn.Key("K"))
	s.Finds(sojourn.Filter{Key: "k"}, refund, old)
	s.Finds(sojourn.Filter{Key: "k", Newest: true}, old, refund)
	s.Finds(sojourn.Filter{Key: "k", States: []sojourn.State{sojourn.Failed}}, refund)
	s.Finds(sojourn.Filter{Key: "absent"})
	holder(old) // no live one: the newest of all kinds, complete
	j, err := c.GetByKey(s.Ctx, "k", kit.Kind, "another")
	s.Must(err, "GetByKey")
	kit.Same(s, "args", string(j.Args), "bytes")
	first := s.Enqueue(kit.OfKind("refund"), sojourn.Key("k"))
	holder(first)
	holder(old, kit.Kind)
	second := s.Enqueue(sojourn.Key("k"))
	s.Finds(sojourn.Filter{Key: "k"}, first, second)
	holder(first, "refund", "another")
	for _, kinds := range [][]string{nil, {kit.Kind, "refund"}} {
		_, err = c.GetByKey(s.Ctx, "k", kinds...)
		s.Is(err, sojourn.ErrConflict, "GetByKey of a key with two live jobs")
		for _, name := range []string{first.String(), second.String(), kit.Kind, "refund"} {
			if !strings.Contains(err.Error(), name) {
				s.Fatalf("the conflict %q does not name %s", err, name)
			}
		}
	}
	edited, err := s.Store.Edit(s.Ctx, sojourn.Filter{Key: "k"}, sojourn.Edit{Action: sojourn.EditCancel})
	s.Must(err, "Edit by key")
	kit.Same(s, "the jobs that were cancelled", kit.Changed(edited), 2)
	holder(second)
}

func findHeads(s *kit.Scene) {
	s.Resumed("k", kit.Args("bytes"))
	c := s.Claim()
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("half")}), "Save")
	jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{c.Job.ID}})
	s.Must(err, "Find")
	head, full := jobs[0], s.Get(c.Job.ID)
	if len(head.Args)+len(head.Checkpoint)+len(head.Result)+len(head.Responses) != 0 {
		s.Fatalf("a head carries bytes: %s", kit.Text(head))
	}
	if string(full.Args) != "bytes" || string(full.Checkpoint) != "half" || len(full.Responses) != 1 {
		s.Fatalf("the full job lacks bytes: %s", kit.Text(full))
	}
	full.Args, full.Checkpoint, full.Response, full.Responses = nil, nil, nil, nil
	head.Args, head.Checkpoint, head.Response, head.Responses = nil, nil, nil, nil
	kit.Same(s, "the rest of the head", kit.Text(head), kit.Text(full))
}

func findReads(s *kit.Scene) {
	due := s.Enqueue(sojourn.Delay(time.Second))
	c := s.Running()
	s.Awaiting(sojourn.Key("k"))
	s.Advance(48 * time.Hour)
	before := s.Picture(c.Job.ID)
	s.Find(sojourn.Filter{})
	_, err := s.Store.Queues(s.Ctx)
	s.Must(err, "Queues")
	_, err = s.Store.Status(s.Ctx)
	s.Must(err, "Status")
	s.Inbox(sojourn.InboxFilter{})
	s.Unchanged(c.Job.ID, before, "reading")
	s.State(due, sojourn.Scheduled)
}

func findBad(s *kit.Scene) {
	for what, f := range kit.InOrder(map[string]sojourn.Filter{
		"a negative limit": {Limit: -1},
		"a limit of 1,001": {Limit: sojourn.MaxFind + 1},
		"a negative wait":  {Wait: -1},
		"1,001 ids":        {IDs: make([]sojourn.ID, sojourn.MaxFind+1)},
	}) {
		_, err := s.Store.Find(s.Ctx, f)
		s.Refused(err, sojourn.CodeInvalid, what)
	}
}

func findClient(s *kit.Scene) {
	c := sojourn.NewClient(s.Store)
	_, err := c.Get(s.Ctx, 1<<40)
	s.Is(err, sojourn.ErrNotFound, "Get of an unknown id")
	_, err = c.GetByKey(s.Ctx, "k", kit.Kind)
	s.Is(err, sojourn.ErrNotFound, "GetByKey of an unknown key")
	s.Is(c.As("ops").Cancel(s.Ctx, 1<<40, ""), sojourn.ErrNotFound, "Cancel of an unknown id")
	j := sojourn.NewJob(kit.Kind, []byte(`"in"`), sojourn.Key("k"))
	e, err := c.Enqueue(s.Ctx, j)
	s.Must(err, "Enqueue")
	kit.Same(s, "the id written into the job", j.ID, e.ID)
	again, err := c.Enqueue(s.Ctx, j) // the retry of a caller who never heard an answer
	s.Must(err, "Enqueue")
	kit.Same(s, "the id of the repeat", again.ID, e.ID)
	kit.Same(s, "duplicate", again.Duplicate, true)
	other := sojourn.NewJob(kit.Kind, []byte(`"other"`), sojourn.Key("k"))
	for range 3 { // the answer names the job that has the key, and the repeated call is still the same
		dup, err := c.Enqueue(s.Ctx, other)
		s.Must(err, "Enqueue")
		kit.Same(s, "the id of the duplicate", dup.ID, e.ID)
		kit.Same(s, "the id written into the duplicate", other.ID, e.ID)
	}
	other.ID = 0 // as a new job
	dup, err := c.Enqueue(s.Ctx, other)
	s.Must(err, "Enqueue")
	kit.Same(s, "the id of a new call", dup.ID, e.ID)
	got, err := c.GetByKey(s.Ctx, "k", kit.Kind)
	s.Must(err, "GetByKey")
	kit.Same(s, "args", string(got.Args), `"in"`)
	s.Must(c.As("ops").Cancel(s.Ctx, e.ID, "asked"), "Cancel")
	s.Must(c.As("ops").Cancel(s.Ctx, e.ID, "asked"), "a second Cancel")
	got, err = c.Wait(s.Ctx, e.ID)
	s.Must(err, "Wait")
	kit.Same(s, "state", got.State, sojourn.Cancelled)
	redrive := sojourn.Edit{Action: sojourn.EditRedrive, Generation: 1}
	_, err = c.As("ops").Jobs().Edit(s.Ctx, e.ID, redrive)
	s.Must(err, "Redrive")
	_, err = c.As("ops").Jobs().Edit(s.Ctx, e.ID, redrive)
	s.Is(err, sojourn.ErrConflict, "a repeated Redrive")
	s.Advance(sojourn.IDLife + time.Minute) // the client draws a new block by itself
	fresh := sojourn.NewJob(kit.Kind, nil)
	_, err = c.Enqueue(s.Ctx, fresh)
	s.Must(err, "Enqueue with an old block")
	gone, cancel := context.WithCancel(s.Ctx)
	cancel()
	if _, err = c.Wait(gone, fresh.ID); err == nil {
		s.Fatal("Wait with a context that has ended gave a job that is not final")
	}
}

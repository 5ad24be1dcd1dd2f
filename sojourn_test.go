package sojourn

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func newFake() (*fakeStore, *Client) {
	s := &fakeStore{}
	return s, NewClient(s)
}

func plainJobs(n int) []*Job {
	out := make([]*Job, n)
	for i := range out {
		out[i] = NewJob("k", fmt.Appendf(nil, "%d", i))
	}
	return out
}

var unknown = &Error{Code: CodeUnknown, Index: -1, Message: "the call may have been executed", Retryable: true}

// rules:F1 the id is in the caller's Job before the store is called, so a repeated call is the same
// job.
func TestEnqueueWritesTheIDFirst(t *testing.T) {
	s, c := newFake()
	s.onEnqueue = func(call int, jobs []Job, _ bool) ([]Enqueued, error) {
		if call < 3 {
			return nil, unknown
		}
		return stored(jobs), nil
	}
	j := NewJob("k", nil)
	for range 2 {
		if _, err := c.Enqueue(t.Context(), j); ErrorCode(err) != CodeUnknown || j.ID != 1 {
			t.Fatalf("%v, id %d", err, j.ID)
		}
	}
	e, err := c.Enqueue(t.Context(), j)
	if err != nil || e.ID != 1 || j.ID != 1 {
		t.Fatalf("%+v, %v", e, err)
	}
	for i, jobs := range s.enqueues {
		if len(jobs) != 1 || jobs[0].ID != 1 {
			t.Errorf("call %d was about id %d", i, jobs[0].ID)
		}
	}
	if other, err := c.Enqueue(t.Context(), NewJob("k", nil)); err != nil || other.ID != 2 {
		t.Errorf("another job: %+v, %v", other, err)
	}
	own := NewJob("k", nil)
	own.ID = 4711
	if e, err := c.Enqueue(t.Context(), own); err != nil || e.ID != 4711 {
		t.Errorf("an id of the caller's: %+v, %v", e, err)
	}
}

// A client that uses a block up leases larger ones, until one expires.
func TestIDsAreDrawnInBlocks(t *testing.T) {
	s, c := newFake()
	for n := range 2500 {
		if e, err := c.Enqueue(t.Context(), NewJob("k", nil)); err != nil || e.ID != ID(n+1) {
			t.Fatalf("job %d: %+v, %v", n, e, err)
		}
	}
	c.ids.drop()
	first, err := c.Reserve(t.Context(), 400)
	if err != nil || len(first) != 400 || !reflect.DeepEqual(s.blocks, []int{1000, 10_000, 1400}) {
		t.Errorf("reserving 400: %v, %d ids, blocks %v", err, len(first), s.blocks)
	}
	if _, err := c.EnqueueAll(t.Context(), plainJobs(1000)...); err != nil || len(s.blocks) != 3 {
		t.Errorf("%v, blocks %v: the rest of the block was not used", err, s.blocks)
	}
	j := NewJob("k", nil, WithID(first[0]))
	if e, err := c.Enqueue(t.Context(), j); err != nil || e.ID != first[0] || e.Duplicate {
		t.Errorf("with a reserved id: %+v, %v", e, err)
	}
	for _, n := range []int{-1, 0, 10_001} {
		if _, err := c.Reserve(t.Context(), n); ErrorCode(err) != CodeInvalid {
			t.Errorf("reserving %d: %v", n, err)
		}
	}
	s.idsErr = errors.New("no store")
	j = NewJob("k", nil)
	if _, err := c.Enqueue(t.Context(), j); !errors.Is(err, s.idsErr) || j.ID != 0 {
		t.Errorf("%v, id %d", err, j.ID)
	}
}

// A process that rests longer than IDLife draws again, once, for the ids that this very call has
// drawn.
func TestExpiredIDsAreRedrawnOnce(t *testing.T) {
	expired := &Error{Code: CodeIDExpired, Index: 0, Message: "draw a new id"}
	s, c := newFake()
	s.onEnqueue = func(call int, jobs []Job, _ bool) ([]Enqueued, error) {
		if call == 1 {
			return nil, expired
		}
		return stored(jobs), nil
	}
	jobs := plainJobs(3)
	jobs[1].ID = 1 << 40
	es, err := c.EnqueueAll(t.Context(), jobs...)
	if err != nil || len(s.enqueues) != 2 || len(s.blocks) != 2 {
		t.Fatalf("%v after %d calls, blocks %v", err, len(s.enqueues), s.blocks)
	}
	if jobs[0].ID <= 1000 || jobs[2].ID <= 1000 || es[0].ID != jobs[0].ID || es[2].ID != jobs[2].ID {
		t.Errorf("ids %d, %d after the redraw: %+v", jobs[0].ID, jobs[2].ID, es)
	}
	if jobs[1].ID != 1<<40 {
		t.Errorf("the caller's own id became %d", jobs[1].ID)
	}

	s, c = newFake()
	s.onEnqueue = func(int, []Job, bool) ([]Enqueued, error) { return nil, expired }
	if _, err := c.Enqueue(t.Context(), NewJob("k", nil)); ErrorCode(err) != CodeIDExpired || len(s.enqueues) != 2 {
		t.Errorf("%v after %d calls", err, len(s.enqueues))
	}
	s.enqueues = nil
	own := NewJob("k", nil)
	own.ID = 7
	if _, err := c.Enqueue(t.Context(), own); ErrorCode(err) != CodeIDExpired || own.ID != 7 || len(s.enqueues) != 1 {
		t.Errorf("%v after %d calls, id %d: an id of the caller's is his to replace", err, len(s.enqueues), own.ID)
	}
}

// In partial mode the items have the error, and stored items are not sent again.
func TestExpiredIDsAreRedrawnInPartialMode(t *testing.T) {
	s, c := newFake()
	s.onEnqueue = func(call int, jobs []Job, _ bool) ([]Enqueued, error) {
		es := stored(jobs)
		for i := range es {
			if call == 1 && jobs[i].ID != 1<<40 || jobs[i].ID == 1<<41 {
				es[i] = Enqueued{Err: &Error{Code: CodeIDExpired, Index: i, Message: "draw a new id"}}
			}
		}
		return es, nil
	}
	jobs := plainJobs(4)
	jobs[1].ID, jobs[3].ID = 1<<40, 1<<41
	es, err := c.EnqueueEach(t.Context(), jobs...)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []ID{1001, 1 << 40, 1002, 0} {
		if es[i].ID != want || (es[i].Err != nil) != (i == 3) {
			t.Errorf("item %d: %+v, want id %d", i, es[i], want)
		}
	}
	if ErrorCode(es[3].Err) != CodeIDExpired || jobs[3].ID != 1<<41 {
		t.Errorf("the caller's own id: %+v, %d", es[3], jobs[3].ID)
	}
	if len(s.enqueues) != 2 || len(s.enqueues[1]) != 2 {
		t.Errorf("%d calls; the second was about %d jobs, want 2", len(s.enqueues), len(s.enqueues[1]))
	}
}

// Everything is checked before the first write, and errors name the item.
func TestEnqueueNamesTheJobAtFault(t *testing.T) {
	s, c := newFake()
	jobs := plainJobs(3)
	jobs[2].Weight = -1
	_, err := c.EnqueueAll(t.Context(), jobs...)
	refusal(t, err, CodeInvalid, "weight")
	if e, _ := errors.AsType[*Error](err); e.Index != 2 || len(s.enqueues) != 0 || len(s.blocks) != 0 || jobs[0].ID != 0 {
		t.Errorf("%v; %d writes, %d blocks, id %d", err, len(s.enqueues), len(s.blocks), jobs[0].ID)
	}
	_, err = c.Enqueue(t.Context(), jobs[2])
	if e, _ := errors.AsType[*Error](err); e == nil || e.Index != -1 {
		t.Errorf("one job alone is called %v", err)
	}
	_, err = c.Enqueue(t.Context(), nil)
	refusal(t, err, CodeInvalid, "job")
	_, err = c.EnqueueAll(t.Context(), []*Job{NewJob("k", nil), nil}...)
	refusal(t, err, CodeInvalid, "job")
	_, err = c.EnqueueAll(t.Context(), plainJobs(MaxBatch+1)...)
	refusal(t, err, CodeInvalid, "jobs")
	s.onEnqueue = func(int, []Job, bool) ([]Enqueued, error) {
		return nil, AtIndex(1, Conflict("another live job has the key"))
	}
	_, err = c.EnqueueAll(t.Context(), plainJobs(2)...)
	if e, _ := errors.AsType[*Error](err); e == nil || e.Index != 1 || !errors.Is(err, ErrConflict) {
		t.Errorf("the store's refusal became %v", err)
	}
	s.onEnqueue = nil
	if es, err := c.EnqueueAll(t.Context(), nil...); err != nil || len(es) != 0 {
		t.Errorf("no jobs: %v, %v", es, err)
	}
	if es, err := c.EnqueueAll(t.Context(), plainJobs(MaxBatch)...); err != nil || len(es) != MaxBatch {
		t.Errorf("a full batch: %d, %v", len(es), err)
	}
}

// spec:P10 partial: each item for itself, the answers in the order of the jobs, the errors with the
// caller's places.
func TestEnqueuePartialKeepsThePlaces(t *testing.T) {
	s, c := newFake()
	s.onEnqueue = func(_ int, jobs []Job, partial bool) ([]Enqueued, error) {
		if !partial {
			t.Error("the store was not told that the call is partial")
		}
		es := stored(jobs)
		es[1] = Enqueued{Err: AtIndex(1, Conflict("another live job has the key"))}
		return es, nil
	}
	jobs := plainJobs(6)
	jobs[0].Kind, jobs[3] = "", nil
	es, err := c.EnqueueEach(t.Context(), jobs...)
	if err != nil || len(es) != 6 {
		t.Fatal(es, err)
	}
	for i, code := range []string{CodeInvalid, "", CodeConflict, CodeInvalid, "", ""} {
		if ErrorCode(es[i].Err) != code {
			t.Errorf("item %d: %v, want code %q", i, es[i].Err, code)
		}
		if e, isOurs := errors.AsType[*Error](es[i].Err); isOurs && e.Index != i {
			t.Errorf("item %d is called %d", i, e.Index)
		}
		if code == "" && es[i].ID != jobs[i].ID {
			t.Errorf("item %d has id %d, want %d", i, es[i].ID, jobs[i].ID)
		}
	}
	n := len(s.enqueues)
	if es, err := c.EnqueueEach(t.Context(), []*Job{{}, nil}...); err != nil || es[0].Err == nil || es[1].Err == nil || len(s.enqueues) != n {
		t.Errorf("nothing but bad jobs: %v, %v", es, err)
	}
	s.onEnqueue = func(int, []Job, bool) ([]Enqueued, error) { return nil, unknown }
	if _, err := c.EnqueueEach(t.Context(), plainJobs(2)...); ErrorCode(err) != CodeUnknown {
		t.Errorf("an error of the whole call: %v", err)
	}
}

// Several goroutines share a client, and no two jobs an id.
func TestClientConcurrently(t *testing.T) {
	_, c := newFake()
	const callers, each = 8, 200
	ids := make([][]ID, callers)
	var wg sync.WaitGroup
	for w := range callers {
		wg.Go(func() {
			for k := range each {
				es, err := c.EnqueueAll(t.Context(), plainJobs(1+k%3)...)
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range es {
					ids[w] = append(ids[w], e.ID)
				}
				if k%50 == 0 {
					c.ids.drop()
				}
				if _, err := c.Respond(t.Context(), &Response{Job: es[0].ID}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	seen := map[ID]bool{}
	for _, some := range ids {
		for _, id := range some {
			if id <= 0 || seen[id] {
				t.Fatalf("id %d was given out twice, or is none", id)
			}
			seen[id] = true
		}
	}
	if len(seen) < callers*each {
		t.Errorf("only %d ids", len(seen))
	}
}

// rules:B8 a response without a message id gets one before the first try, and keeps it.
func TestRespondWritesAMessageID(t *testing.T) {
	s, c := newFake()
	s.onRespond = func(call int, rs []Response) ([]Responded, error) {
		if call == 1 {
			return nil, unknown
		}
		return []Responded{{Outcome: Applied, Job: 7, Seq: 1}}, nil
	}
	r := &Response{Kind: "k", Key: "order-42"}
	if _, err := c.Respond(t.Context(), r); ErrorCode(err) != CodeUnknown || len(r.MessageID) < 20 {
		t.Fatalf("%v, message id %q", err, r.MessageID)
	}
	if a, err := c.Respond(t.Context(), r); err != nil || a.Outcome != Applied || a.Job != 7 {
		t.Fatalf("%+v, %v", a, err)
	}
	if one, two := s.responds[0][0].MessageID, s.responds[1][0].MessageID; one != r.MessageID || two != r.MessageID {
		t.Errorf("message ids %q and %q; the response has %q", one, two, r.MessageID)
	}
	other, named := &Response{Job: 7}, &Response{Job: 7, MessageID: "evt_77"}
	for _, r := range []*Response{other, named} {
		if _, err := c.Respond(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if other.MessageID <= r.MessageID || named.MessageID != "evt_77" {
		t.Errorf("message ids %q, %q", other.MessageID, named.MessageID)
	}
	n := len(s.responds)
	_, err := c.RespondAll(t.Context(), []*Response{{Job: 1}, {Job: -1}}...)
	refusal(t, err, CodeInvalid, "job")
	if e, _ := errors.AsType[*Error](err); e.Index != 1 {
		t.Errorf("%v does not name the second", err)
	}
	_, err = c.Respond(t.Context(), nil)
	refusal(t, err, CodeInvalid, "response")
	_, err = c.RespondAll(t.Context(), make([]*Response, MaxBatch+1)...)
	refusal(t, err, CodeInvalid, "responses")
	if len(s.responds) != n {
		t.Error("a bad response reached the store")
	}
}

func TestGetAndWait(t *testing.T) {
	s, c := newFake()
	s.onFind = func(int, Filter) ([]Job, error) { return nil, nil }
	if _, err := c.Get(t.Context(), 7); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	if _, err := c.GetByKey(t.Context(), "order-42", "k"); !errors.Is(err, ErrNotFound) {
		t.Errorf("GetByKey: %v", err)
	}
	if _, err := c.Wait(t.Context(), 7); !errors.Is(err, ErrNotFound) {
		t.Errorf("Wait: %v", err)
	}
	for i, f := range s.finds {
		if f.Full != (i < 2) || f.Validate() != nil { // Wait looks before it waits
			t.Errorf("find %d asks for %+v: %v", i, f, f.Validate())
		}
	}
	s.finds = nil
	s.onFind = func(call int, f Filter) ([]Job, error) {
		final := len(f.States) == 3
		if final && (f.Wait <= 0 || f.States[0].Live()) {
			t.Errorf("Wait polls: %+v", f)
		}
		if final && call < 5 {
			return nil, nil
		}
		return []Job{{ID: 7, State: Completed, Kind: f.Kind, Key: f.Key}}, nil
	}
	if j, err := c.Wait(t.Context(), 7); err != nil || j.State != Completed {
		t.Errorf("Wait: %+v, %v", j, err)
	}
	if j, err := c.GetByKey(t.Context(), "order-42", "k"); err != nil || j.Kind != "k" || j.Key != "order-42" {
		t.Errorf("GetByKey: %+v, %v", j, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.onFind = func(_ int, f Filter) ([]Job, error) {
		cancel()
		if len(f.States) > 0 {
			return nil, nil
		}
		return []Job{{ID: 7, State: Running}}, nil
	}
	if _, err := c.Wait(ctx, 7); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with a context that ends: %v", err)
	}
	s.onFind = func(int, Filter) ([]Job, error) { return nil, ErrClosed }
	if _, err := c.Wait(t.Context(), 7); !errors.Is(err, ErrClosed) {
		t.Errorf("Wait on a closed store: %v", err)
	}
}

func TestCancelAndRedrive(t *testing.T) {
	s, c := newFake()
	var item []Edited
	s.onEdit = func(f Filter, e Edit) (Page[Edited], error) {
		if !reflect.DeepEqual(f.IDs, []ID{7}) || e.Validate(big) != nil {
			t.Errorf("%+v, %+v: %v", f, e, e.Validate(big))
		}
		return Page[Edited]{Items: item}, nil
	}
	if err := c.As("ann").Cancel(t.Context(), 7, "obsolete"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a job that is not there: %v", err)
	}
	item = []Edited{{ID: 7, State: Cancelled, Changed: true}}
	if err := c.As("ann").Cancel(t.Context(), 7, "obsolete"); err != nil {
		t.Error(err)
	}
	item = []Edited{{ID: 7, State: Completed, Err: Conflict("job 7 is completed")}}
	if err := c.As("ann").Jobs().Redrive(t.Context(), 7); !errors.Is(err, ErrConflict) {
		t.Errorf("a completed job: %v", err)
	}
	want := []Edit{{Action: EditCancel, By: "ann", Reason: "obsolete"}, {Action: EditCancel, By: "ann", Reason: "obsolete"},
		{Action: EditRedrive, By: "ann"}}
	if !reflect.DeepEqual(s.edits, want) {
		t.Errorf("edits %+v, want %+v", s.edits, want)
	}
	s.onEdit = func(Filter, Edit) (Page[Edited], error) { return Page[Edited]{}, ErrClosed }
	if err := c.Cancel(t.Context(), 7, ""); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed store: %v", err)
	}
	if err := c.Close(); err != nil || !s.closed || c.Store() != Store(s) {
		t.Errorf("Close: %v, closed %v", err, s.closed)
	}
}

func TestFilterValidate(t *testing.T) {
	for _, c := range []struct {
		f     Filter
		field string
	}{
		{Filter{Limit: -1}, "limit"},
		{Filter{Limit: MaxFind + 1}, "limit"},
		{Filter{Wait: -time.Second}, "wait"},
		{Filter{IDs: make([]ID, MaxFind+1)}, "ids"},
		{Filter{Tag: strings.Repeat("t", MaxKey+1)}, "tag"},
		{Filter{Queue: "\xff"}, "queue"},
		{Filter{Kind: "\x00"}, "kind"},
		{Filter{Group: "\x00"}, "group"},
		{Filter{Kind: "k", Key: strings.Repeat("y", MaxKey+1)}, "key"},
		{Filter{Reason: "\x00"}, "reason"},
	} {
		refusal(t, c.f.Validate(), CodeInvalid, c.field)
	}
	for _, f := range []InboxFilter{{Kind: "\xff"}, {Kind: "k", Key: "\x00"}, {Source: strings.Repeat("s", MaxKey+1)}, {Limit: -1}} {
		if ErrorCode(f.Validate()) != CodeInvalid {
			t.Errorf("%+v is taken", f)
		}
	}
	for _, f := range []Filter{{}, {Kind: "k", Key: "x' or 1=1", Group: "%", Tag: "%", Reason: "no such thing"}, {Limit: MaxFind, IDs: make([]ID, MaxFind), Wait: time.Hour}} {
		if err := f.Validate(); err != nil {
			t.Error(err)
		}
	}
}

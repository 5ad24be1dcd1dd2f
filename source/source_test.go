package source_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/source/sourcetest"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

func TestMemory(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.Bench {
		b := &sourcetest.Memory{}
		return sourcetest.Bench{
			Open: func(*testing.T) source.Broker { return b.Open() },
			Publish: func(_ *testing.T, ms ...source.Message) {
				for _, m := range ms {
					m.Topic = "memory"
					b.Publish(m)
				}
			},
		}
	})
}

// byBody reads {"kind", "key"} out of a body.
func byBody(_ context.Context, m *source.Message) (*sojourn.Response, error) {
	var b struct {
		Kind, Key string
		Skip      bool
		Panic     bool
		Job       sojourn.ID
	}
	if err := json.Unmarshal(m.Body, &b); err != nil {
		return nil, err
	}
	switch {
	case b.Skip:
		return nil, nil
	case b.Panic:
		panic("no")
	}
	return &sojourn.Response{Kind: b.Kind, Key: b.Key, Job: b.Job}, nil
}

// responder is a store that remembers, and fails as it is told.
type responder struct {
	mu     sync.Mutex // guards the fields below
	stored []sojourn.Response
	calls  int
	fail   func(call int, rs []*sojourn.Response) error
	after  func(call int) error // fails after the commit
}

func (r *responder) RespondAll(ctx context.Context, rs ...*sojourn.Response) ([]sojourn.Responded, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls++; r.fail != nil {
		if err := r.fail(r.calls, rs); err != nil {
			return nil, err
		}
	}
	var as []sojourn.Responded
	for _, one := range rs {
		a := sojourn.Responded{Outcome: sojourn.Early, Seq: int64(len(r.stored) + 1)}
		if one.Park {
			a.Outcome = sojourn.Parked
		}
		if slices.ContainsFunc(r.stored, func(s sojourn.Response) bool { return s.Source == one.Source && s.MessageID == one.MessageID }) {
			a.Outcome = sojourn.Duplicate
		} else {
			r.stored = append(r.stored, *one)
		}
		as = append(as, a)
	}
	if r.after != nil {
		if err := r.after(r.calls); err != nil {
			return nil, err
		}
	}
	return as, ctx.Err()
}

func (r *responder) ids() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.stored {
		ids = append(ids, s.MessageID)
	}
	return ids
}

var quiet = slog.New(slog.DiscardHandler)

// run runs a source inside a bubble until the broker has nothing left or a limit of virtual time is
// over.
func run(t *testing.T, to source.Responder, b *sourcetest.Memory, o source.Options) (handled []source.Handled, err error) {
	t.Helper()
	o.Name, o.Logger = "test", quiet
	if o.Match == nil {
		o.Match = byBody
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	o.Observe = func(h source.Handled) {
		handled = append(handled, h)
		if b.Left() == 0 {
			cancel()
		}
	}
	s, err := source.New(to, b.Open(), o)
	if err != nil {
		t.Fatal(err)
	}
	return handled, s.Run(ctx)
}

func publish(b *sourcetest.Memory, bodies ...string) {
	for _, body := range bodies {
		b.Publish(source.Message{Topic: "t", ContentType: "application/json", Body: []byte(body)})
	}
}

// TestEachMessageHasOneEnd: stored, parked with its reason, or passed over; and the ones behind go
// on (inv:U4, spec:H2).
func TestEachMessageHasOneEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := sqlite.Open(":memory:", sqlite.MaxBytes(100_000))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		b := &sourcetest.Memory{}
		big := func(n int) string { return `{"kind":"k","key":"big","pad":"` + strings.Repeat("x", n) + `"}` }
		publish(b, `{"kind":"k","key":"1"}`, `{`, `{"skip":true}`, `{"panic":true}`, big(100_000), strings.Repeat("y", 200_000),
			`{"kind":"k k","key":"1"}`, `{"job":99999}`, `{"kind":"k","key":"2"}`)
		handled, err := run(t, c, b, source.Options{})
		if err != nil || len(handled) != 9 {
			t.Fatalf("%d handled, %v", len(handled), err)
		}
		for i, want := range []string{"early memory/0", "parked parked:memory/1 undecodable", "", "parked parked:memory/3 panic", "parked parked:memory/4 too_large",
			"parked parked:memory/5 undecodable", "parked parked:memory/6 invalid", "parked parked:memory/7 not_found", "early memory/8"} {
			got := ""
			if r := handled[i].Response; r != nil {
				got = strings.TrimSpace(fmt.Sprint(handled[i].Answer.Outcome, " ", r.MessageID, " ", r.Reason))
			}
			if got != want {
				t.Errorf("message %d: %q, want %q", i, got, want)
			}
		}
		lies, err := c.Store().Inbox(t.Context(), sojourn.InboxFilter{})
		if err != nil || len(lies) != 8 {
			t.Fatalf("%d lie in the inbox, %v", len(lies), err)
		}
		slices.Reverse(lies)
		if r := lies[0]; r.Source != "test" || r.ContentType != "application/json" || string(r.Body) != `{"kind":"k","key":"1"}` {
			t.Errorf("stored as %+v", r)
		}
		if r := lies[1]; string(r.Body) != "{" || r.Error != "unexpected end of JSON input" {
			t.Errorf("parked as %+v", r)
		}
		for _, r := range lies[3:5] {
			if len(r.Body) != 64<<10 || !strings.Contains(r.Error, "kept are 65536 of") {
				t.Errorf("%d bytes kept of a body that is too large: %.200s", len(r.Body), r.Error)
			}
		}
		if r := lies[5]; strings.Contains(r.Error, "batch") || !strings.Contains(r.Error, "kind:") || len(r.Body) == 0 {
			t.Errorf("refused as %+v", r)
		}
	})
}

// TestBrokenJSON: a body that is declared as JSON and does not parse is refused by the store. It is
// parked as it came, and the messages behind it go on.
func TestBrokenJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := sqlite.Open(":memory:")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		b := &sourcetest.Memory{}
		publish(b, `{"a":1}`, `{"a":`, `{"a":2}`)
		b.Publish(source.Message{Body: []byte(`{"a":`)}) // of a type that nobody has named
		byID := func(_ context.Context, m *source.Message) (*sojourn.Response, error) {
			return &sojourn.Response{Kind: "k", Key: m.ID}, nil
		}
		handled, err := run(t, c, b, source.Options{Match: byID})
		if err != nil || len(handled) != 4 {
			t.Fatalf("%d handled, %v", len(handled), err)
		}
		for i, want := range []sojourn.ResponseOutcome{sojourn.Early, sojourn.Parked, sojourn.Early, sojourn.Early} {
			if h := handled[i]; h.Answer.Outcome != want {
				t.Errorf("message %d is %s (%s), want %s", i, h.Answer.Outcome, h.Response.Reason, want)
			}
		}
		if r := handled[1].Response; r.Reason != sojourn.CodeInvalidJSON || string(r.Body) != `{"a":` || !strings.Contains(r.Error, "at byte 5") {
			t.Errorf("parked as %+v", r)
		}
	})
}

// TestStoreSmallerThanTheRest: the cut body of a refused message is left out as well where the
// store takes less.
func TestStoreSmallerThanTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := sqlite.Open(":memory:", sqlite.MaxBytes(100))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		b := &sourcetest.Memory{}
		b.Publish(source.Message{Body: fmt.Appendf(nil, `{"kind":"k","key":"1","pad":"%0500d"}`, 1), ContentType: strings.Repeat("x", 300)})
		handled, err := run(t, c, b, source.Options{})
		if err != nil || handled[0].Answer.Outcome != sojourn.Parked || len(handled[0].Response.Body) > 0 {
			t.Fatalf("%+v %v", handled, err)
		}
	})
}

// TestOutages: while the store is away, or says that it does not know, the same messages are stored
// again with the same ids, and nothing is acknowledged before (spec:H4, spec:H5).
func TestOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &sourcetest.Memory{}
		publish(b, `{"kind":"k","key":"1"}`, `{"kind":"k","key":"2"}`, `{`)
		away := &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1}
		unknown := &sojourn.Error{Code: sojourn.CodeUnknown, Index: -1}
		to := &responder{
			fail: func(call int, _ []*sojourn.Response) error {
				if b.Left() != 3 {
					t.Error("acknowledged before it was stored")
				}
				if call < 4 {
					return away
				}
				return nil
			},
			after: func(call int) error {
				if call == 4 {
					return unknown
				}
				return nil
			},
		}
		handled, err := run(t, to, b, source.Options{})
		if err != nil || to.calls != 5 {
			t.Fatalf("%d calls, %v", to.calls, err)
		}
		if got := fmt.Sprint(to.ids()); got != "[memory/0 memory/1 parked:memory/2]" {
			t.Error(got)
		}
		for _, h := range handled {
			if h.Answer.Outcome != sojourn.Duplicate {
				t.Errorf("%s: %s", h.Message.ID, h.Answer.Outcome)
			}
		}
	})
}

// TestHopeless: a permanent error ends Run, and the messages stay with the broker.
func TestHopeless(t *testing.T) {
	for _, hopeless := range []error{sojourn.ErrClosed, &sojourn.Error{Code: sojourn.CodeSchema, Index: -1}, &sojourn.Error{Code: sojourn.CodeInvalid, Index: -1}} {
		synctest.Test(t, func(t *testing.T) {
			b := &sourcetest.Memory{}
			publish(b, `{"kind":"k","key":"1"}`)
			_, err := run(t, &responder{fail: func(int, []*sojourn.Response) error { return hopeless }}, b, source.Options{})
			if !errors.Is(err, hopeless) || b.Left() != 1 {
				t.Errorf("%v: %v, %d left", hopeless, err, b.Left())
			}
		})
	}
}

// TestStop: when the context ends, received messages are stored within the grace. Messages that
// cannot be stored stay with the broker (inv:J2).
func TestStop(t *testing.T) {
	for _, outage := range []time.Duration{time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			b := &sourcetest.Memory{}
			publish(b, `{"kind":"k","key":"1"}`)
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			to := &responder{fail: func(int, []*sojourn.Response) error {
				cancel()
				if time.Since(began) < outage {
					return errors.New("away")
				}
				return nil
			}}
			s, err := source.New(to, b.Open(), source.Options{Name: "test", Match: byBody, Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			err = s.Run(ctx)
			took := time.Since(began)
			if short := outage < source.DefaultGrace; (err == nil) != short || (b.Left() == 0) != short || took > source.DefaultGrace {
				t.Errorf("outage %v: %v after %v, %d left", outage, err, took, b.Left())
			}
		})
	}
}

// TestMatcherBrokenOff: a matcher whose context has ended has said nothing about its message, so it
// is not parked for that.
func TestMatcherBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &sourcetest.Memory{}
		publish(b, `{}`)
		ctx, cancel := context.WithCancel(t.Context())
		to := &responder{}
		slow := func(ctx context.Context, _ *source.Message) (*sojourn.Response, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		s, _ := source.New(to, b.Open(), source.Options{Name: "test", Match: slow, Logger: quiet})
		if err := s.Run(ctx); !errors.Is(err, context.Canceled) || b.Left() != 1 || to.calls != 0 {
			t.Errorf("%v, %d left, %d calls", err, b.Left(), to.calls)
		}
	})
}

// deaf loses every acknowledgement.
type deaf struct{ source.Broker }

func (deaf) Acknowledge(context.Context, []*source.Message) error { return errors.New("gone") }

// TestRedelivery: messages whose acknowledgement was lost come again and are duplicates (spec:H5,
// tr:R1).
func TestRedelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, to := &sourcetest.Memory{}, &responder{}
		publish(b, `{"kind":"k","key":"1"}`, `{"kind":"k","key":"2","id":"x"}`, `{`)
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		o := source.Options{Name: "test", Match: byBody, Logger: quiet, Batch: 2, Observe: func(source.Handled) {
			if seen++; seen == 3 {
				cancel()
			}
		}}
		s, _ := source.New(to, deaf{b.Open()}, o)
		if err := s.Run(ctx); err != nil || b.Left() != 3 {
			t.Fatalf("%v, %d left", err, b.Left())
		}
		handled, err := run(t, to, b, source.Options{Batch: 2})
		if err != nil || len(handled) != 3 || len(to.ids()) != 3 {
			t.Fatalf("%v, %d handled, stored %v", err, len(handled), to.ids())
		}
		for _, h := range handled {
			if h.Answer.Outcome != sojourn.Duplicate {
				t.Errorf("%s: %s", h.Message.ID, h.Answer.Outcome)
			}
		}
	})
}

// TestMendedMatcher: once the matcher can read it, a message that was parked is no duplicate of
// itself.
func TestMendedMatcher(t *testing.T) {
	m := &source.Message{ID: "p/0@7", Body: []byte("<xml/>")}
	broken := source.Matcher(byBody).Response(t.Context(), "s", m)
	mended := source.Matcher(func(context.Context, *source.Message) (*sojourn.Response, error) {
		return &sojourn.Response{Kind: "k", Key: "1"}, nil
	}).Response(t.Context(), "s", m)
	if !broken.Park || broken.MessageID != "parked:p/0@7" || mended.MessageID != "p/0@7" {
		t.Errorf("%+v\n%+v", broken, mended)
	}
}

func TestMessageIDs(t *testing.T) {
	long := strings.Repeat("é", 200)
	for _, id := range []string{long, "a\nb", "", "\xff"} {
		r := source.Matcher(func(context.Context, *source.Message) (*sojourn.Response, error) {
			return &sojourn.Response{Kind: "k", Key: "1"}, nil
		}).Response(t.Context(), "s", &source.Message{ID: id})
		if err := r.Validate(100); err != nil || !strings.HasPrefix(r.MessageID, "sha256:") {
			t.Errorf("%q became %q: %v", id, r.MessageID, err)
		}
	}
}

func TestOptions(t *testing.T) {
	b := (&sourcetest.Memory{}).Open()
	for field, o := range map[string]source.Options{"name": {Match: byBody}, "match": {Name: "s"}, "batch": {Name: "s", Match: byBody, Batch: 1001},
		"ttl": {Name: "s", Match: byBody, TTL: 1}, "grace": {Name: "s", Match: byBody, Grace: -1}} {
		_, err := source.New(&responder{}, b, o)
		if e, ok := errors.AsType[*sojourn.Error](err); !ok || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestHeaderNames: a matcher gets header names in lower case, regardless of the sender and the
// broker. Of names that differ only in case, one is used.
func TestHeaderNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &sourcetest.Memory{}
		b.Publish(source.Message{Headers: map[string]string{"Event-ID": "evt_1", "X-Order": "first", "x-order": "second", "plain": "p"}})
		var seen map[string]string
		match := func(_ context.Context, m *source.Message) (*sojourn.Response, error) {
			seen = m.Headers
			return nil, nil
		}
		if _, err := run(t, &responder{}, b, source.Options{Match: match}); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(seen); got != "map[event-id:evt_1 plain:p x-order:first]" {
			t.Errorf("the matcher sees %s", got)
		}
	})
}

// TestConflictsStopNothing: a message whose id was used for another key or body is stored in the
// inbox as a conflict and acknowledged. Later messages continue, and its redelivery is recognised
// (spec:H5, inv:U4).
func TestConflictsStopNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := sqlite.Open(":memory:")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		b := &sourcetest.Memory{}
		for range 2 { // everything comes twice
			for i, body := range []string{`{"kind":"k","key":"1"}`, `{"kind":"k","key":"2"}`, `{"kind":"k","key":"1"} `, `{`, `{"kind":"k","key":"3"}`} {
				m := source.Message{ID: "same", Body: []byte(body)}
				if i == 4 {
					m.ID = "behind"
				}
				b.Publish(m)
			}
		}
		handled, err := run(t, c, b, source.Options{Batch: 3})
		if err != nil || len(handled) != 10 || b.Left() != 0 {
			t.Fatalf("%d handled, %d left, %v", len(handled), b.Left(), err)
		}
		for i, want := range []string{"early", "conflict", "conflict", "parked", "early", "duplicate", "conflict", "conflict", "duplicate", "duplicate"} {
			if got := handled[i].Answer; string(got.Outcome) != want || i >= 5 && got.Seq != handled[i-5].Answer.Seq {
				t.Errorf("message %d: %s, number %d; want %s", i, got.Outcome, got.Seq, want)
			}
		}
		lies, err := c.Store().Inbox(t.Context(), sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{"conflict"}})
		if err != nil || len(lies) != 2 || lies[1].Key != "2" || lies[0].MessageID != "same" || lies[0].Duplicates != 1 {
			t.Errorf("in the inbox as conflict: %+v, %v", lies, err)
		}
	})
}

func TestReservedNames(t *testing.T) {
	for _, name := range []string{"token:abc", "link:1", "key:", "conflict:bank"} {
		if _, err := source.New(&responder{}, (&sourcetest.Memory{}).Open(), source.Options{Name: name, Match: byBody}); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("a source called %s: %v", name, err)
		}
	}
}

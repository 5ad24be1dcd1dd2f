package sojourn

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/tracecontext"
)

const (
	someParent  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	otherParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-ffffffffffffffff-01"
)

func TestInheritTrace(t *testing.T) {
	full := map[string]string{"a": strings.Repeat("x", MaxMeta-20)}
	for name, c := range map[string]struct {
		meta          map[string]string
		parent, state string
		want          map[string]string
	}{
		"new":               {nil, someParent, "vendor=1", map[string]string{"traceparent": someParent, "tracestate": "vendor=1"}},
		"beside others":     {map[string]string{"tenant": "a"}, someParent, "", map[string]string{"tenant": "a", "traceparent": someParent}},
		"has one":           {map[string]string{"traceparent": otherParent}, someParent, "vendor=1", map[string]string{"traceparent": otherParent}},
		"a state of others": {map[string]string{"tracestate": "old=1"}, someParent, "", map[string]string{"traceparent": someParent}},
		"no parent":         {nil, "", "vendor=1", nil},
		"not one":           {nil, "00-xyz", "", nil},
		"a long state":      {nil, someParent, strings.Repeat("x", tracecontext.MaxState+1), map[string]string{"traceparent": someParent}},
		"an odd state":      {nil, someParent, "a=\n", map[string]string{"traceparent": someParent}},
		"no room":           {full, someParent, "", full},
	} {
		before := maps.Clone(c.meta)
		j := Job{Meta: c.meta}
		j.InheritTrace(c.parent, c.state)
		if !maps.Equal(j.Meta, c.want) || !maps.Equal(c.meta, before) {
			t.Errorf("%s: %v, want %v", name, j.Meta, c.want)
		}
		if parent, state := j.TraceContext(); parent != c.want["traceparent"] || state != c.want["tracestate"] {
			t.Errorf("%s: the trace context is %q, %q", name, parent, state)
		}
	}
}

// What a caller has put into Meta may become a header or an environment variable.
func TestTraceContextIsChecked(t *testing.T) {
	for name, meta := range map[string]map[string]string{
		"nothing": nil, "NUL": {"traceparent": someParent + "\x00"}, "a line": {"traceparent": "a\nb"},
		"a state alone": {"tracestate": "a=1"}, "an odd state": {"traceparent": someParent, "tracestate": "a=1\nb"},
	} {
		parent, state := (&Job{Meta: meta}).TraceContext()
		if state != "" || parent != "" && parent != someParent {
			t.Errorf("%s: %q, %q", name, parent, state)
		}
	}
}

// recorder is a Tracer that gives each job the same trace context.
type recorder struct{ ended []error }

func (r *recorder) Enqueue(ctx context.Context, jobs []*Job) (context.Context, func(error)) {
	for _, j := range jobs {
		j.InheritTrace(someParent, "")
	}
	return ctx, func(err error) { r.ended = append(r.ended, err) }
}

func (r *recorder) Respond(ctx context.Context, _ []*Response) (context.Context, func(error)) {
	return ctx, func(err error) { r.ended = append(r.ended, err) }
}

func TestTracer(t *testing.T) {
	store := &fakeStore{}
	r := &recorder{}
	c := NewClient(store).WithTracer(r)
	if _, err := c.EnqueueAll(t.Context(), NewJob("k", nil), NewJob("k", nil)); err != nil {
		t.Fatal(err)
	}
	for _, j := range store.enqueues[0] {
		if j.Meta[MetaTraceparent] != someParent {
			t.Errorf("stored with the meta %v", j.Meta)
		}
	}
	down := errors.New("down")
	store.onRespond = func(int, []Response) ([]Responded, error) { return nil, down }
	if _, err := c.Respond(t.Context(), &Response{Kind: "k", Key: "1"}); !errors.Is(err, down) {
		t.Error(err)
	}
	if len(r.ended) != 2 || r.ended[0] != nil || !errors.Is(r.ended[1], down) {
		t.Errorf("spans ended with %v", r.ended)
	}
}

package otelsojourn_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	span "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi/server"
	"github.com/sojourn-queue/sojourn/source/webhook"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
	"github.com/sojourn-queue/sojourn/worker/otelsojourn"
)

// patience bounds every wait for something that must happen.
const patience = 2 * time.Minute

// otlp is a collector: it keeps the spans that it gets.
type otlp struct {
	mu    sync.Mutex
	spans []*span.Span
}

func (o *otlp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	var got collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(b, &got)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, resource := range got.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			o.spans = append(o.spans, scope.Spans...)
		}
	}
}

// provider exports to a collector in this process.
func provider(t *testing.T) (*sdk.TracerProvider, *otlp) {
	t.Helper()
	o := &otlp{}
	h := httptest.NewServer(o)
	t.Cleanup(h.Close)
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(h.URL+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	p := sdk.NewTracerProvider(sdk.WithBatcher(exporter))
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p, o
}

// continued is what an instrumented HTTP server does: spans of its handler belong to the trace of
// the request.
func continued(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))))
	})
}

// send sends a request that belongs to the trace of ctx.
func send(t *testing.T, ctx context.Context, url, body string, want int) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if b, _ := io.ReadAll(response.Body); response.StatusCode != want {
		t.Fatalf("%s: %d %s", url, response.StatusCode, b)
	}
}

// One trace has an enqueue over HTTP, two attempts of which the first fails, the answer of a
// webhook, the step that it resumes, and the follow-up job. The collector is a real one by its
// protocol.
func TestOneTrace(t *testing.T) {
	p, exported := provider(t)
	tracing := otelsojourn.New(otelsojourn.WithTracerProvider(p))
	client, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s, err := server.New(t.Context(), driver.Of(client), server.Options{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Drain()
	api := httptest.NewServer(s)
	defer api.Close()
	receiver, err := webhook.New(tracing.Client(client), webhook.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hooks := httptest.NewServer(continued(receiver))
	defer hooks.Close()

	asked := make(chan string, 1) // the bank gets a link and the trace context
	charge, ship := sojourn.Kind[struct{}]{Name: "charge"}, sojourn.Kind[struct{}]{Name: "ship"}
	w := worker.New(client, worker.Options{RespondURL: hooks.URL, Middleware: []worker.Middleware{tracing.Middleware}})
	traceparent := make(chan string, 1)
	worker.Handle(w, charge, func(ctx context.Context, job *sojourn.Job, _ struct{}) error {
		switch {
		case job.Response != nil:
			return sojourn.Then(ship.New(struct{}{}, sojourn.Key("parcel")))
		case job.Attempt == 1:
			return sojourn.Again(errors.New("the bank is down"))
		}
		link, err := job.RespondURL(0)
		if err != nil {
			return err
		}
		parent, _ := job.TraceContext()
		traceparent <- parent
		asked <- link
		return sojourn.Await(time.Hour)
	})
	worker.Handle(w, ship, func(context.Context, *sojourn.Job, struct{}) error { return nil })
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	ended := make(chan error, 1)
	working, rest := context.WithCancel(ctx)
	go func() { ended <- w.Run(working) }()

	request, root := p.Tracer("shop").Start(ctx, "POST /orders")
	send(t, request, api.URL+"/v1/jobs", `{"kind":"charge","key":"order-42","args":{}}`, http.StatusCreated)
	root.End()
	link := <-asked
	answer := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": <-traceparent}) // the bank continues the trace
	send(t, answer, link, `{"paid":true}`, http.StatusOK)
	for _, key := range []string{"order-42", "parcel"} {
		waitFor(t, ctx, client, key)
	}
	rest()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := p.ForceFlush(ctx); err != nil {
		t.Fatal(err)
	}
	checkTrace(t, exported, root.SpanContext().TraceID())
}

// waitFor waits until the job with the key is completed.
func waitFor(t *testing.T, ctx context.Context, client *sojourn.Client, key string) {
	t.Helper()
	for {
		j, err := client.GetByKey(ctx, key)
		if err == nil {
			j, err = client.Wait(ctx, j.ID)
		}
		if err == nil && j.State == sojourn.Completed {
			return
		}
		if !errors.Is(err, sojourn.ErrNotFound) || ctx.Err() != nil {
			t.Fatalf("%s: %+v, %v", key, j, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func checkTrace(t *testing.T, o *otlp, id trace.TraceID) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	names, known := map[string]int{}, map[string]bool{}
	var failed, linked int
	for _, s := range o.spans {
		if string(s.TraceId) != string(id[:]) {
			t.Errorf("the span %s belongs to another trace", s.Name)
		}
		names[s.Name]++
		known[string(s.SpanId)] = true
		if s.Status.GetCode() == span.Status_STATUS_CODE_ERROR {
			failed++
		}
		linked += len(s.Links)
	}
	for name, want := range map[string]int{"POST /orders": 1, "process default": 4, "respond": 1, "receive default": 1} {
		if names[name] != want {
			t.Errorf("%d spans are called %q, want %d; all are %v", names[name], name, want, names)
		}
	}
	if failed != 1 || linked != 4 {
		t.Errorf("%d spans have failed and %d links, want 1 and 4", failed, linked)
	}
	for _, s := range o.spans {
		if len(s.ParentSpanId) > 0 && !known[string(s.ParentSpanId)] {
			t.Errorf("the parent of %s was not exported", s.Name)
		}
	}
}

// An enqueue by a client makes the span that the attempts have as their parent; a job that has a
// trace context keeps it. Within a handler the span is a child of the attempt.
func TestEnqueue(t *testing.T) {
	p, exported := provider(t)
	tracing := otelsojourn.New(otelsojourn.WithTracerProvider(p))
	jobs := []*sojourn.Job{sojourn.NewJob("k", nil), sojourn.NewJob("k", nil, sojourn.Meta("tenant", "a")),
		sojourn.NewJob("k", nil, sojourn.Meta("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))}
	ctx, done := tracing.Enqueue(t.Context(), jobs)
	done(sojourn.Invalid("jobs", "a refusal"))
	id := trace.SpanContextFromContext(ctx).TraceID().String()
	for i, want := range []string{id, id, "4bf92f3577b34da6a3ce929d0e0e4736"} {
		if got, _ := jobs[i].TraceContext(); !strings.HasPrefix(got, "00-"+want) {
			t.Errorf("job %d has the trace context %q, want %s", i, got, want)
		}
	}
	if err := p.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	exported.mu.Lock()
	defer exported.mu.Unlock()
	if len(exported.spans) != 1 || exported.spans[0].Kind != span.Span_SPAN_KIND_PRODUCER || exported.spans[0].Status.GetCode() != span.Status_STATUS_CODE_ERROR {
		t.Errorf("exported %v", exported.spans)
	}
}

// Without a provider jobs get no trace context, and handlers run as they do without the middleware.
// A trace context that a job has passes through.
func TestOff(t *testing.T) {
	tracing := otelsojourn.New()
	j := sojourn.NewJob("k", nil)
	_, done := tracing.Enqueue(t.Context(), []*sojourn.Job{j})
	done(nil)
	if j.Meta != nil {
		t.Errorf("the job has the meta %v", j.Meta)
	}
	const of = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	traced := sojourn.NewJob("k", nil, sojourn.Meta("traceparent", of))
	ran := false
	err := tracing.Middleware(func(_ context.Context, j *sojourn.Job) error {
		ran = true
		if got, _ := j.TraceContext(); got != of {
			t.Errorf("the handler gets %q", got)
		}
		return nil
	})(t.Context(), traced)
	if err != nil || !ran {
		t.Error(err, ran)
	}
}

// BenchmarkOff is what the middleware costs where no provider is set.
func BenchmarkOff(b *testing.B) {
	h := otelsojourn.New().Middleware(func(context.Context, *sojourn.Job) error { return nil })
	j := sojourn.NewJob("k", nil)
	b.ReportAllocs()
	for b.Loop() {
		_ = h(b.Context(), j)
	}
}

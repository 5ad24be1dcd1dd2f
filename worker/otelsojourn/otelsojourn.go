// Package otelsojourn traces jobs with OpenTelemetry, by the semantic conventions for messaging:
// one trace has the enqueue of a job, each of its attempts, its responses, and the jobs that follow
// it.
//
//	tracing := otelsojourn.New()
//	client = tracing.Client(client)
//	w := worker.New(client, worker.Options{Middleware: []worker.Middleware{tracing.Middleware}})
//
// The trace context of the W3C travels in Job.Meta, under the names traceparent and tracestate.
// Without a tracer provider, or for a trace that is not sampled, nothing is exported, and without a
// provider a job gets no trace context.
package otelsojourn

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/worker"
)

// scope is the name of the tracer.
const scope = "github.com/sojourn-queue/sojourn/worker/otelsojourn"

// wire is the format of the W3C. It is not the global propagator, which may be another one, because
// programs in other languages read the same jobs.
var wire propagation.TraceContext

// Tracing makes the spans. It is a sojourn.Tracer. Safe for concurrent use.
type Tracing struct{ tracer trace.Tracer }

// Option is an option of New.
type Option func(*config)

type config struct{ provider trace.TracerProvider }

// WithTracerProvider sets the provider. Default: the global one, also if it is set later.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.provider = p } }

// New makes a Tracing.
func New(options ...Option) *Tracing {
	c := config{provider: otel.GetTracerProvider()}
	for _, o := range options {
		o(&c)
	}
	return &Tracing{c.provider.Tracer(scope)}
}

// Client returns the same client with spans of its calls that store jobs and responses. Close only
// one of them.
func (t *Tracing) Client(c *sojourn.Client) *sojourn.Client { return c.WithTracer(t) }

// Enqueue implements sojourn.Tracer: one span of the kind producer for a call. A job that has a
// trace context already keeps it.
func (t *Tracing) Enqueue(ctx context.Context, jobs []*sojourn.Job) (context.Context, func(error)) {
	queue := jobs[0].Queue
	for _, j := range jobs {
		if j.Queue != queue {
			queue = ""
		}
	}
	ctx, span := t.tracer.Start(ctx, name("send", queue), trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(operation("send", queue)...))
	if span.IsRecording() {
		if len(jobs) == 1 {
			span.SetAttributes(attribute.String("sojourn.kind", jobs[0].Kind))
		} else {
			span.SetAttributes(attribute.Int("messaging.batch.message_count", len(jobs)))
		}
	}
	parent, state := contextOf(ctx)
	for _, j := range jobs {
		j.InheritTrace(parent, state)
	}
	return ctx, ender(span)
}

// Respond implements sojourn.Tracer: one span of the kind producer for a call.
func (t *Tracing) Respond(ctx context.Context, rs []*sojourn.Response) (context.Context, func(error)) {
	ctx, span := t.tracer.Start(ctx, "respond", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(operation("respond", "")...))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("sojourn.source", rs[0].Source), attribute.String("messaging.message.id", rs[0].MessageID),
			attribute.Int("messaging.batch.message_count", len(rs)))
	}
	return ctx, ender(span)
}

// Middleware makes a span of the kind consumer for each step that runs a handler: a child of the
// span that enqueued the job, with a link to it. Jobs that the handler enqueues with its context,
// and those of sojourn.Then and sojourn.AwaitJobs, are children of this span. A step that a
// response has resumed also has a span from the arrival of the response until now.
func (t *Tracing) Middleware(next worker.Handler) worker.Handler {
	return func(ctx context.Context, job *sojourn.Job) error {
		created := ctx
		if parent, state := job.TraceContext(); parent != "" {
			created = wire.Extract(ctx, propagation.MapCarrier{sojourn.MetaTraceparent: parent, sojourn.MetaTracestate: state})
		}
		t.received(created, job)
		options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(operation("process", job.Queue)...)}
		if from := trace.SpanContextFromContext(created); from.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: from}))
		}
		ctx, span := t.tracer.Start(created, name("process", job.Queue), options...)
		if span.IsRecording() {
			span.SetAttributes(attribute.String("messaging.message.id", job.ID.String()), attribute.String("sojourn.kind", job.Kind),
				attribute.Int("sojourn.attempt", int(job.Attempt)), attribute.String("sojourn.purpose", job.Purpose.String()))
		}
		if parent, state := contextOf(ctx); parent != "" {
			own := *job // InheritTrace replaces the map, which the retry handler shares
			own.Meta = without(job.Meta)
			own.InheritTrace(parent, state)
			job.Meta = own.Meta
		}
		returned := false
		defer func() { // also when the handler panics, or ends its goroutine
			if !returned {
				span.SetAttributes(attribute.String("error.type", sojourn.ReasonPanic))
				span.SetStatus(codes.Error, "the handler did not return")
			}
			span.End()
		}()
		err := next(ctx, job)
		returned = true
		if span.IsRecording() {
			outcome(span, err)
		}
		return err
	}
}

// received makes the span of the response that has resumed a job.
func (t *Tracing) received(ctx context.Context, job *sojourn.Job) {
	r := job.Response
	if job.Purpose != sojourn.PurposeResume || r == nil {
		return
	}
	at, now := r.ReceivedAt, time.Now()
	if at.IsZero() || at.After(now) { // the store has a clock of its own
		at = now
	}
	_, span := t.tracer.Start(ctx, name("receive", job.Queue), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(at), trace.WithAttributes(operation("receive", job.Queue)...))
	span.SetAttributes(attribute.String("messaging.message.id", r.MessageID), attribute.String("sojourn.source", r.Source), attribute.String("sojourn.kind", job.Kind))
	span.End(trace.WithTimestamp(now))
}

// outcome records the outcome of a step. Waiting and snoozing are no errors.
func outcome(span trace.Span, err error) {
	o := sojourn.OutcomeOf(err)
	span.SetAttributes(attribute.String("sojourn.outcome", string(o.Type)))
	if o.Type != sojourn.OutcomeError && o.Type != sojourn.OutcomeAbort {
		return
	}
	reason := o.Reason
	if reason == "" {
		reason = "_OTHER"
	}
	span.SetAttributes(attribute.String("error.type", reason))
	span.SetStatus(codes.Error, o.Text)
}

// without returns meta without a trace context.
func without(meta map[string]string) map[string]string {
	out := make(map[string]string, len(meta))
	for k, v := range meta {
		if k != sojourn.MetaTraceparent && k != sojourn.MetaTracestate {
			out[k] = v
		}
	}
	return out
}

// contextOf returns the trace context of a context, "" without one.
func contextOf(ctx context.Context) (parent, state string) {
	carrier := propagation.MapCarrier{}
	wire.Inject(ctx, carrier)
	return carrier[sojourn.MetaTraceparent], carrier[sojourn.MetaTracestate]
}

func ender(span trace.Span) func(error) {
	return func(err error) {
		if err != nil {
			code := sojourn.ErrorCode(err)
			if code == "" {
				code = "_OTHER"
			}
			span.SetAttributes(attribute.String("error.type", code))
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// name is a span's name: the operation, and the destination if there is one.
func name(operation, queue string) string {
	if queue == "" {
		return operation
	}
	return operation + " " + queue
}

// operation has the attributes of every span.
func operation(name, queue string) []attribute.KeyValue {
	kind := map[string]string{"send": "send", "respond": "send", "receive": "receive", "process": "process"}[name]
	all := []attribute.KeyValue{attribute.String("messaging.system", "sojourn"), attribute.String("messaging.operation.name", name), attribute.String("messaging.operation.type", kind)}
	if queue != "" {
		all = append(all, attribute.String("messaging.destination.name", queue))
	}
	return all
}

package kit

import (
	"time"

	"github.com/sojourn-queue/sojourn"
)

// asProducer calls the store as those do who enqueue jobs.
type asProducer struct{ *environment }

// Job makes a job with a fresh id. Its content type is not JSON, so that args, result and
// checkpoint may be any text.
func (s *asProducer) Job(options ...sojourn.Option) sojourn.Job {
	s.Helper()
	j := *sojourn.NewJob(Kind, []byte(`{"order":42}`), append([]sojourn.Option{Typed("text/plain")}, options...)...)
	j.ID = s.ID()
	return j
}

// Put enqueues one job and returns the answer.
func (s *asProducer) Put(j sojourn.Job) sojourn.Enqueued {
	s.Helper()
	es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
	s.Must(err, "Enqueue")
	if len(es) != 1 {
		s.Fatalf("Enqueue of 1 job gave %d answers", len(es))
	}
	if es[0].Err != nil {
		s.Fatalf("Enqueue: without partial the answer has Err %v", es[0].Err)
	}
	return es[0]
}

// Enqueue stores a new job.
func (s *asProducer) Enqueue(options ...sojourn.Option) sojourn.ID {
	s.Helper()
	j := s.Job(options...)
	if e := s.Put(j); e.ID != j.ID || e.Duplicate || e.Replaced {
		s.Fatalf("Enqueue of a new job %d answered %+v", j.ID, e)
	}
	return j.ID
}

// EnqueueMany stores n jobs in one call and returns their ids in order.
func (s *asProducer) EnqueueMany(n int, options ...sojourn.Option) []sojourn.ID {
	s.Helper()
	jobs := make([]sojourn.Job, n)
	ids := make([]sojourn.ID, n)
	for i := range jobs {
		jobs[i] = s.Job(options...)
		ids[i] = jobs[i].ID
	}
	_, err := s.Store.Enqueue(s.Ctx, jobs, false)
	s.Must(err, "Enqueue of %d jobs", n)
	return ids
}

// OfKind makes a job of another kind.
func OfKind(name string) sojourn.Option { return func(j *sojourn.Job) { j.Kind = name } }

// Args sets the args of a job.
func Args(b string) sojourn.Option { return func(j *sojourn.Job) { j.Args = []byte(b) } }

// Steady retries after d each time, without any randomness.
func Steady(d time.Duration) sojourn.Option {
	return sojourn.RetryBackoff(sojourn.Backoff{First: d, Factor: 1, Limit: d, Jitter: -1})
}

// Policy sets fields of the policy.
func Policy(p sojourn.Policy) sojourn.Option { return sojourn.WithPolicy(p) }

// Typed sets the content type of the args.
func Typed(contentType string) sojourn.Option {
	return func(j *sojourn.Job) { j.ContentType = contentType }
}

// Office is open when a case begins: it is Monday, 09:00 UTC.
var Office = sojourn.Window{Days: []string{"mon-fri"}, Start: "08:00", End: "17:00"}

// Evening opens 13 hours later.
var Evening = sojourn.Window{Start: "22:00", End: "23:00"}

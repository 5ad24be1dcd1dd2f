package worker

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// handlerStep is what a handler can do with its step, through the methods of its Job. It is the
// driver.Step of the Job.
type handlerStep struct{ step *step }

// SaveCheckpoint implements driver.Step.
func (s handlerStep) SaveCheckpoint(ctx context.Context, b []byte) error {
	return s.save(ctx, driver.Saved{Checkpoint: b})
}

// SetProgress implements driver.Step.
func (s handlerStep) SetProgress(ctx context.Context, text string) error {
	return s.save(ctx, driver.Saved{Progress: &text})
}

// SetKey implements driver.Step.
func (s handlerStep) SetKey(ctx context.Context, key string) error {
	return s.save(ctx, driver.Saved{Key: key})
}

// save writes under the step's lease. After the step was reported or lost it returns
// sojourn.ErrLeaseLost.
func (s handlerStep) save(ctx context.Context, saved driver.Saved) error {
	if !s.step.owns() {
		return sojourn.ErrLeaseLost
	}
	saved.Lease = s.step.lease
	sent := time.Now()
	answers, err := s.step.r.w.store.Save(ctx, []driver.Saved{saved})
	if err != nil {
		return err
	}
	if errors.Is(answers[0].Err, sojourn.ErrLeaseLost) {
		s.step.lose(answers[0].Reason)
	} else if answers[0].Err == nil {
		s.step.r.extended([]*step{s.step}, sent)
	}
	return answers[0].Err
}

// Parents reads the jobs that the step's job depends on, for Job.Parents.
func (s handlerStep) Parents(ctx context.Context) ([]sojourn.Job, error) {
	var out []sojourn.Job
	f := sojourn.Filter{ParentsOf: s.step.lease.ID, Full: true, Limit: sojourn.MaxFind}
	for {
		page, err := s.step.r.w.store.Find(ctx, f)
		if err != nil {
			return nil, err
		}
		if out = append(out, page...); len(page) < f.Limit {
			return out, nil
		}
		f.After = page[len(page)-1].ID.String()
	}
}

// Children reads the jobs that the step's job has stored and awaited in this stage, for
// Job.Children. A server leaves out jobs that the worker may not read, so a short page may not be
// the last one.
func (s handlerStep) Children(ctx context.Context) iter.Seq2[*sojourn.Job, error] {
	return func(yield func(*sojourn.Job, error) bool) {
		f := sojourn.Filter{AwaitedBy: s.step.lease.ID, Full: true, Limit: childrenPage}
		for {
			page, err := s.step.r.w.store.Find(ctx, f)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				if !yield(&page[i], nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
			f.After = page[len(page)-1].ID.String()
		}
	}
}

// childrenPage bounds the children, with all their data, that are in memory at a time.
const childrenPage = 100

// RespondURL is Options.RespondURL, for Job.RespondURL.
func (s handlerStep) RespondURL() string { return s.step.r.w.o.RespondURL }

// Logger writes to the job's own log.
func (s handlerStep) Logger() *slog.Logger { return slog.New(&jobLog{lines: &s.step.log}) }

// InTx implements driver.TxStep.
func (s handlerStep) InTx() ([]sojourn.LogLine, error) {
	s.step.r.mu.Lock()
	defer s.step.r.mu.Unlock()
	if s.step.phase != running {
		return nil, sojourn.ErrLeaseLost
	}
	s.step.inTx = true
	return s.step.log.peek(), nil // the report carries them too, for the case of a rollback
}

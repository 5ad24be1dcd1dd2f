package jsonform

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sojourn-queue/sojourn"
)

// Stage is the next stage of a job; see sojourn.Advance.
type Stage struct {
	Queue    string        `json:"queue,omitempty"`
	Delay    time.Duration `json:"delay,omitempty"`
	RunAt    time.Time     `json:"run_at,omitzero"`
	Priority *int32        `json:"priority,omitempty"`
	Weight   *int32        `json:"weight,omitempty"`
}

// Follow is what follows a step that was not run in Go: next jobs, or the next stage of the job.
// Both empty: nothing.
type Follow struct {
	Next    []NewJob `json:"next,omitempty"`
	Advance *Stage   `json:"advance,omitempty"`
}

// Outcome is the error with which a handler ends the step: nil, sojourn.Then or sojourn.Advance. An
// *Error with CodeInvalid says what cannot be.
func (f Follow) Outcome() error {
	switch {
	case len(f.Next) > 0 && f.Advance != nil:
		return sojourn.Invalid("advance", "stands beside next; a job either goes on with its next stage, or is completed with next jobs")
	case f.Advance != nil:
		a := f.Advance
		options := []sojourn.Option{sojourn.Delay(a.Delay)}
		if !a.RunAt.IsZero() {
			options = append(options, sojourn.RunAt(a.RunAt))
		}
		if a.Priority != nil {
			options = append(options, sojourn.Priority(*a.Priority))
		}
		if a.Weight != nil {
			options = append(options, sojourn.Weight(*a.Weight))
		}
		return sojourn.Advance(a.Queue, options...)
	case len(f.Next) == 0:
		return nil
	case len(f.Next) > sojourn.MaxBatch:
		return sojourn.Invalid("next", "%d jobs exceed the limit of %d", len(f.Next), sojourn.MaxBatch)
	}
	jobs := make([]*sojourn.Job, len(f.Next))
	for i := range f.Next {
		if f.Next[i].ID != 0 {
			return sojourn.Invalid("next", "job %d has an id; leave it out, and the store draws one", i)
		}
		job := f.Next[i].Job()
		jobs[i] = &job
		if err := jobs[i].Validate(sojourn.MaxMaxBytes); err != nil {
			return sojourn.AtIndex(i, err)
		}
	}
	return sojourn.Then(jobs...)
}

// ReadStrict decodes one JSON document. Duplicate, unknown and wrongly written names are refused,
// as are values that are nested too deep.
func ReadStrict(b []byte, v any) error {
	if Depth(b) > MaxDepth {
		return errors.New("values are nested too deep")
	}
	return json.Unmarshal(b, v, Plain, json.RejectUnknownMembers(true), jsontext.AllowInvalidUTF8(false))
}

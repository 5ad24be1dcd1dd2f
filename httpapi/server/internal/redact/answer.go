package redact

import (
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

// sees reports whether the sender of a request sees hidden values of a queue and a kind. A server
// that needs no token knows nobody, so nobody sees them.
func sees(who *access.Caller, queue, kind string) bool {
	return who != nil && who.Allows(access.VerbReadRedacted, queue, kind)
}

// Answer returns the answer to a request without what its sender may not see. Answers to workers
// have all values.
func (p Paths) Answer(who *access.Caller, out any) any {
	if len(p.of) == 0 {
		return out
	}
	switch v := out.(type) {
	case wire.JobView:
		v.Job = p.Job(who, v.Job)
		return v
	case wire.JobsAnswer:
		for i := range v.Jobs {
			v.Jobs[i].Job = p.Job(who, v.Jobs[i].Job)
		}
	case wire.HistoryAnswer:
		for i := range v.History {
			v.History[i].ErrorDetail = p.detail(who, "", "", v.History[i].ErrorDetail)
		}
	case wire.InboxAnswer:
		for i := range v.Responses {
			v.Responses[i].Response = p.response(who, "", v.Responses[i].Response)
		}
	case wire.Schedule:
		return p.schedule(who, v)
	case wire.SchedulesAnswer:
		for i := range v.Schedules {
			v.Schedules[i] = p.schedule(who, v.Schedules[i])
		}
	case wire.Failure:
		v.ErrorDetail = p.detail(who, v.Queue, v.Kind, v.ErrorDetail)
		return v
	case wire.FailuresAnswer:
		for i := range v.Failures {
			f := &v.Failures[i]
			f.ErrorDetail = p.detail(who, f.Queue, f.Kind, f.ErrorDetail)
		}
	}
	return out
}

// Hides reports whether the sender of a request may not see the value at a path such as
// args.card.number, in jobs of a queue and a kind.
func (p Paths) Hides(who *access.Caller, queue, kind, path string) bool {
	steps := strings.Split(path, ".")
	hidden := slices.ContainsFunc(p.of[steps[0]], func(hidden []string) bool {
		if len(hidden) >= len(steps) {
			return false
		}
		for i, name := range hidden {
			if name != "*" && !strings.EqualFold(name, steps[i+1]) {
				return false
			}
		}
		return true
	})
	return hidden && !sees(who, queue, kind)
}

// Job returns a job without what the sender of a request may not see.
func (p Paths) Job(who *access.Caller, j sojourn.Job) sojourn.Job {
	if len(p.of) == 0 || sees(who, j.Queue, j.Kind) {
		return j
	}
	j.Args, j.Result, j.Checkpoint, j.ErrorDetail = p.hide(args, j.Args), p.hide(result, j.Result), p.hide(checkpoint, j.Checkpoint), p.hide(errorDetail, j.ErrorDetail)
	if j.Response != nil {
		r := p.response(who, j.Queue, *j.Response)
		j.Response = &r
	}
	j.Responses = slices.Clone(j.Responses)
	for i, one := range j.Responses {
		r := p.response(who, j.Queue, *one)
		j.Responses[i] = &r
	}
	return j
}

// response returns a response without what the sender of a request may not see. An empty queue is
// not known: then the value is shown only to those who see all queues.
func (p Paths) response(who *access.Caller, queue string, r sojourn.Response) sojourn.Response {
	if !sees(who, queue, r.Kind) {
		r.Body = p.hide(response, r.Body)
	}
	return r
}

func (p Paths) detail(who *access.Caller, queue, kind string, raw []byte) []byte {
	if sees(who, queue, kind) {
		return raw
	}
	return p.hide(errorDetail, raw)
}

func (p Paths) schedule(who *access.Caller, s wire.Schedule) wire.Schedule {
	if !sees(who, s.Job.Queue, s.Job.Kind) {
		s.Job.Args = p.hide(args, s.Job.Args)
	}
	return s
}

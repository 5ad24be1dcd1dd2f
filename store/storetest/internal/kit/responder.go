package kit

import (
	"fmt"

	"github.com/sojourn-queue/sojourn"
)

// asResponder calls the store as those do who answer jobs.
type asResponder struct {
	*environment
	Messages int // number of the last message
}

// A ResponseOption changes a response.
type ResponseOption func(*sojourn.Response)

// Body sets the body.
func Body(b string) ResponseOption { return func(r *sojourn.Response) { r.Body = []byte(b) } }

// Message sets the source and the id of the message.
func Message(source, id string) ResponseOption {
	return func(r *sojourn.Response) { r.Source, r.MessageID = source, id }
}

// Failing makes the response an error.
func Failing(reason string) ResponseOption {
	return func(r *sojourn.Response) { r.Failed, r.Reason, r.Error = true, reason, "the other side says "+reason }
}

// Progress makes the response one that reports progress and ends no wait.
func Progress(text string) ResponseOption {
	return func(r *sojourn.Response) { r.Progress, r.Body = true, []byte(text) }
}

// ToJob addresses the job by its id instead of its key.
func ToJob(id sojourn.ID) ResponseOption {
	return func(r *sojourn.Response) { r.Kind, r.Key, r.Job = "", "", id }
}

// Token addresses the job by a response token instead of its key.
func Token(t string) ResponseOption {
	return func(r *sojourn.Response) { r.Kind, r.Key, r.Token = "", "", t }
}

// Answer makes a response with a message id of its own.
func (s *asResponder) Answer(key string, options ...ResponseOption) sojourn.Response {
	s.Messages++
	r := sojourn.Response{Kind: Kind, Key: key, Source: "test", MessageID: fmt.Sprintf("m%d", s.Messages),
		Body: fmt.Appendf(nil, "answer %d", s.Messages), ContentType: "text/plain"}
	for _, set := range options {
		set(&r)
	}
	return r
}

// Respond stores one response and returns the answer.
func (s *asResponder) Respond(key string, options ...ResponseOption) sojourn.Responded {
	s.Helper()
	return s.Send(s.Answer(key, options...))
}

// Send stores one response and returns the answer.
func (s *asResponder) Send(r sojourn.Response) sojourn.Responded {
	s.Helper()
	as, err := s.Store.Respond(s.Ctx, []sojourn.Response{r})
	s.Must(err, "Respond")
	if len(as) != 1 {
		s.Fatalf("Respond of 1 response gave %d answers", len(as))
	}
	return as[0]
}

// Became wants a response to be answered so, for a job (0 = none), and to lie so in the inbox.
func (s *asResponder) Became(r sojourn.Responded, want sojourn.ResponseOutcome, job sojourn.ID) sojourn.Response {
	s.Helper()
	if r.Outcome != want || r.Job != job {
		s.Fatalf("Respond answered %s for job %d, want %s for job %d", r.Outcome, r.Job, want, job)
	}
	return s.Stored(r.Seq, want)
}

// Stored wants a response of the inbox to have an outcome.
func (s *asResponder) Stored(seq int64, want sojourn.ResponseOutcome) sojourn.Response {
	s.Helper()
	for _, r := range s.Inbox(sojourn.InboxFilter{Limit: sojourn.MaxFind}) {
		if r.Seq == seq {
			if r.Outcome != want {
				s.Fatalf("response %d lies in the inbox as %s, want %s", seq, r.Outcome, want)
			}
			return r
		}
	}
	s.Fatalf("response %d is not in the inbox", seq)
	return sojourn.Response{}
}

package ask

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// State is what has become of a question.
type State string

// The states of a question. All but Open and NotAsked are final for the link.
const (
	NotAsked  State = "not_asked" // the job waits, or will wait, without a question; it may follow
	Open      State = "open"      // an answer by this link would be accepted
	Answered  State = "answered"  // by this link
	Elsewhere State = "elsewhere" // answered, but not by this link
	Expired   State = "expired"   // the time for the answer is over
	Replaced  State = "replaced"  // the job goes on without this answer, and may ask again
	Cancelled State = "cancelled" // the job was cancelled
	Closed    State = "closed"    // the job has ended
)

// Status is a question with what has become of it. It tells nothing else about the job.
type Status struct {
	State State `json:"state"`
	// Question is complete while it is open, and once it is answered by the link. Otherwise it has
	// only title and brand: a link that has ended shows no details.
	Question Question  `json:"question,omitzero"`
	AskedAt  time.Time `json:"asked_at,omitzero"`
	Until    time.Time `json:"until,omitzero"`    // of an open one: the end of the wait or of the link; zero: none is known
	EndedAt  time.Time `json:"ended_at,omitzero"` // when it was answered, or ended otherwise
	Answer   *Answer   `json:"answer,omitempty"`  // nil if the response by the link is not of the page
}

// Store is an optional ability of a sojourn.Store.
type Store interface {
	// ReadAsk reads the question of the wait that a capability names. The capability is the
	// permission. ErrNotFound if the store has not issued it, or if nothing is known of its wait
	// any more. It changes nothing.
	ReadAsk(ctx context.Context, token string) (Status, error)
}

// Read reads the question of a capability; see Store.ReadAsk. If the store has no questions, the
// error has CodeInvalid.
func Read(ctx context.Context, c *sojourn.Client, token string) (Status, error) {
	s, ok := c.Store().(Store)
	if !ok {
		return Status{}, sojourn.Invalid("store", "this store has no questions; use one of store/sqlite or store/postgres")
	}
	return s.ReadAsk(ctx, token)
}

// NotFound is the error of ReadAsk for every capability of which nothing is known, so that a caller
// cannot learn how close a token was.
func NotFound() error { return sojourn.NotFound("no question belongs to this link") }

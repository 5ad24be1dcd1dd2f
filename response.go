package sojourn

import (
	"encoding/json"
	"strings"
	"time"
)

// Response is a message from the outside that answers a job. It addresses the job by Kind and Key,
// by Job, or by Token. The store sets the second group.
type Response struct {
	Kind   string `json:"kind,omitempty"`
	Key    string `json:"key,omitempty"`
	Job    ID     `json:"job,omitempty"`
	Token  string `json:"token,omitempty"`  // capability of one wait of one job (Job.Token)
	Source string `json:"source,omitempty"` // where it came from, such as "webhook"; see ValidSource
	// MessageID is set by the sender: a repeat is a duplicate, and the same id with another address
	// or body is a conflict. It is unique for the capability with Token, else for Source.
	// Client.Respond generates a missing one.
	MessageID   string `json:"message_id,omitempty"`
	Body        []byte `json:"body,omitempty"`
	ContentType string `json:"content_type,omitempty"`
	Failed      bool   `json:"failed,omitempty"` // an error response: ends the attempt with Reason and Error
	// Progress marks a heartbeat that ends no wait: while the job runs or awaits, Body becomes its
	// progress text (cut at MaxProgress bytes; empty keeps the old one), and the beat of its wait
	// restarts. Its outcome is then applied, else late; unmatched if no job has the key.
	Progress bool          `json:"progress,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Error    string        `json:"error,omitempty"`
	TTL      time.Duration `json:"-"`              // input only: of an early one without a live job, at least MinInboxTTL; 0 = the store's
	Park     bool          `json:"park,omitempty"` // its source could not parse it: it has no address, and Reason and Error say why
	// PerKey says that MessageID is unique for Source and address only, not for all of Source: so
	// webhook senders number their messages.
	PerKey bool `json:"per_key,omitempty"`
	// KeepConflict is for senders that cannot receive an error, such as brokers: if its MessageID
	// is known with other content, the response is stored with the outcome Conflicting. Without
	// KeepConflict the call is refused with CodeConflict.
	KeepConflict bool `json:"keep_conflict,omitempty"`

	Seq        int64           `json:"seq,omitempty"` // number in the inbox, in order of arrival
	Outcome    ResponseOutcome `json:"outcome,omitempty"`
	Generation int32           `json:"generation,omitempty"`
	ReceivedAt time.Time       `json:"received_at,omitzero"`
	ExpiresAt  time.Time       `json:"expires_at,omitzero"` // when an early one with no live job becomes unmatched
	Duplicates int32           `json:"duplicates,omitempty"`
	Replay     int64           `json:"replay,omitempty"` // the new response that an operator created from it
	By         string          `json:"by,omitempty"`     // the operator that has matched, retried or discarded it
}

// Decode decodes the body: JSON into v, or the bytes as they are if v is a *[]byte. CodeInvalid if
// the body is not JSON or does not fit v.
func (r *Response) Decode(v any) error {
	if b, ok := v.(*[]byte); ok {
		*b = r.Body
		return nil
	}
	if err := json.Unmarshal(r.Body, v); err != nil {
		return &Error{Code: CodeInvalid, Field: "body", Index: -1, Message: "the response cannot be decoded: " + err.Error(), Err: err}
	}
	return nil
}

// ResponseOutcome is the outcome of a response. No response is ever dropped because of timing.
type ResponseOutcome string

// The outcomes of a response.
const (
	Applied   ResponseOutcome = "applied"   // a job has taken it
	Early     ResponseOutcome = "early"     // stored; attached to a live job (kept), or in the inbox until a job awaits its key
	Duplicate ResponseOutcome = "duplicate" // its message id was stored before, with the same content: only counted
	Late      ResponseOutcome = "late"      // its job was final, or the wait or attempt that it was for had ended
	Stale     ResponseOutcome = "stale"     // its token belongs to another attempt or to a wait that was answered, or has expired
	Unmatched ResponseOutcome = "unmatched" // early, and no job came within its time to live; or progress without a job
	Parked    ResponseOutcome = "parked"    // its source could not parse it; it stays in the inbox for operators, and no job gets it automatically
	Discarded ResponseOutcome = "discarded" // an operator has discarded it

	Conflicting ResponseOutcome = "conflict" // its message id is known with another address or body; for operators, like Parked
)

// SourcePoll is the source of the answers that poll functions bring. Their message ids are ID.EPOCH
// of the step.
const SourcePoll = "poll"

// Retention of the inbox.
const (
	MinInboxTTL      = time.Second
	DefaultInboxTTL  = 24 * time.Hour      // an early response without a live job becomes unmatched
	DefaultInboxKeep = 30 * 24 * time.Hour // responses without a job, and message ids, are pruned
)

// Responded is the store's answer to one Response.
type Responded struct {
	Outcome ResponseOutcome `json:"outcome"`
	Job     ID              `json:"job,omitempty"` // the job it was attached or applied to, or the final one it came too late for
	Seq     int64           `json:"seq"`           // of the stored response; of the first one for a duplicate
}

// reservedSources begin names of sources that only a store gives.
var reservedSources = []string{"token:", "link:", "key:", "conflict:"}

// ValidSource checks the name of a source: 1 to MaxKey bytes of text that do not begin with
// "token:", "link:", "key:" or "conflict:". Stores use those for responses of access tokens and to
// keep message ids of different senders apart.
func ValidSource(field, name string) error {
	for _, prefix := range reservedSources {
		if strings.HasPrefix(name, prefix) {
			return Invalid(field, "%.64q is no name of a source: names that begin with %q are reserved", name, prefix)
		}
	}
	return ValidKey(field, name)
}

// Validate checks everything about a response that can be checked without the store's data.
// maxBytes bounds the body.
func (r *Response) Validate(maxBytes int) error {
	if r == nil {
		return Invalid("response", "is nil")
	}
	addressed := 0
	for _, a := range []bool{r.Key != "", r.Job != 0, r.Token != ""} {
		if a {
			addressed++
		}
	}
	switch {
	case r.Park && (addressed > 0 || r.Kind != ""):
		return Invalid("park", "a parked response has no address; remove kind, key, job and token")
	case !r.Park && addressed != 1:
		return Invalid("response", "address it by exactly one of kind and key, job, or token")
	}
	if r.TTL != 0 && (r.TTL < MinInboxTTL || r.TTL > MaxHorizon) {
		return Invalid("ttl", "%v is out of range: 1s to 10 years, or 0 for the store's own", r.TTL)
	}
	if r.Key != "" {
		if err := ValidName("kind", r.Kind); err != nil {
			return err
		}
		if err := ValidKey("key", r.Key); err != nil {
			return err
		}
	}
	if r.Job < 0 || r.Job > maxID {
		return Invalid("job", "%d is out of range: 1 to 2^53-1", r.Job)
	}
	if len(r.Body) > maxBytes {
		return TooLarge("body", len(r.Body), maxBytes)
	}
	if r.Progress && r.Failed {
		return Invalid("progress", "a response cannot be both progress and an error; set only one of progress and failed")
	}
	if err := ValidContentType("content_type", r.ContentType); err != nil {
		return err
	}
	for _, c := range []struct{ field, v string }{{"source", r.Source}, {"message_id", r.MessageID}} {
		if c.v != "" {
			if err := ValidKey(c.field, c.v); err != nil {
				return err
			}
		}
	}
	return nil
}

// InboxFilter selects responses. All fields that are set must match; Outcomes that are not nil but
// empty match nothing. The outcomes late, stale, unmatched, parked, discarded and conflict, the
// responses of one job, and those of one kind and key are found by index; other filters scan the
// responses from the newest on.
type InboxFilter struct {
	Outcomes []ResponseOutcome
	Kind     string
	Key      string
	Job      ID
	Source   string
	After    string // Page.Next of the page before, which is the Seq of its last response; "" = from the newest
	Limit    int    // 1 to MaxFind; 0 = 100
}

// Validate checks the ranges. The error is an *Error with CodeInvalid.
func (f InboxFilter) Validate() error {
	if err := ValidLimit(f.Limit); err != nil {
		return err
	}
	if err := validCursor(f.After); err != nil {
		return err
	}
	return validTexts([]named{{"kind", f.Kind}, {"key", f.Key}, {"source", f.Source}})
}

// The actions of EditInbox.
const (
	InboxMatch   = "match"   // send it to the job or the key that the edit names
	InboxRetry   = "retry"   // send it again to its original address
	InboxDiscard = "discard" // discard it; a job that keeps it loses it
)

// InboxCounts counts the responses in the inbox.
type InboxCounts struct {
	Lying map[ResponseOutcome]int64 `json:"lying"` // early without a job, late, stale, unmatched, parked, discarded, conflict; each up to MaxInboxCount
	// BySource counts the newest MaxInboxCount responses, of all outcomes, by source and outcome.
	// Under Duplicate are the repeats of them, which are only counted.
	BySource map[string]map[ResponseOutcome]int64 `json:"by_source"`
	Since    time.Time                            `json:"since,omitzero"` // when the oldest of these came
}

// MaxInboxCount bounds the responses that InboxCounts reads, so that counting a large inbox is as
// fast as a small one.
const MaxInboxCount = 10_000

// NearMiss is a job or a response with a key similar to another one.
type NearMiss struct {
	Key string `json:"key"`
	Job ID     `json:"job,omitempty"` // a live job that has the key or awaits it,
	Seq int64  `json:"seq,omitempty"` // or a response that is early without a job, or unmatched
}

// MaxNearMisses bounds the answer of NearMisses.
const MaxNearMisses = 10

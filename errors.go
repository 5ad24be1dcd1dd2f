package sojourn

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sojourn-queue/sojourn/internal/mediatype"
)

// The four sentinels. Test with errors.Is; every *Error that means one of them unwraps to it.
var (
	// ErrNotFound: there is no such job, queue or response.
	ErrNotFound = errors.New("sojourn: not found")
	// ErrLeaseLost: the lease of the step has ended; nothing the step writes is accepted any more.
	ErrLeaseLost = errors.New("sojourn: lease lost")
	// ErrConflict: the job exists with other content, another live job holds the key, or its state
	// does not allow the change.
	ErrConflict = errors.New("sojourn: conflict")
	// ErrClosed: the store or the client is closed, or refuses work after a disk error.
	ErrClosed = errors.New("sojourn: closed")
)

// Codes of [Error], stable across versions.
const (
	CodeInvalid     = "invalid"              // a field is malformed or out of range
	CodeTooLarge    = "too_large"            // bytes above the store's limit
	CodeInvalidJSON = "invalid_json"         // bytes whose content type is JSON do not parse; the message names the offset
	CodeConflict    = "conflict"             // see ErrConflict
	CodeNotFound    = "not_found"            // see ErrNotFound
	CodeDependency  = "unknown_dependency"   // a job would depend on one that does not exist, or that the token may not read; unwraps to ErrNotFound
	CodeCycle       = "cycle"                // dependencies that form a cycle; the message names its jobs; unwraps to ErrConflict
	CodeLeaseLost   = "lease_lost"           // see ErrLeaseLost
	CodeClosed      = "closed"               // see ErrClosed
	CodeIDExpired   = "id_expired"           // the id block is older than IDLife: draw a new id
	CodeOversize    = "weight_exceeds_limit" // the job is heavier than the limit of its queue, so it would never start
	CodeQueueFull   = "queue_full"           // the queue has as many ready jobs as max_depth allows: try again later
	CodeQueueLimit  = "queue_limit"          // jobs of the access token have created as many queues as it may
	CodeLowSpace    = "low_space"            // the disk is nearly full, and new jobs would take what those that are stored need
	CodeUnknown     = "unknown_outcome"      // the call may or may not have been executed: repeat it with the same jobs
	CodeUnavailable = "unavailable"          // the store could not be reached or written; nothing happened
	CodeDrained     = "worker_drained"       // an operator has drained the worker: it gets no jobs any more and should end
	CodeSchema      = "schema"               // the tables are of a version that this program cannot work with; see Schema
)

// Error is a refusal with a stable code and a message that names the remedy.
type Error struct {
	Code      string // one of the Code constants
	Field     string // the field at fault, such as "key"; empty if none
	Index     int    // of the job in a batch; -1 if it is not about one
	Message   string
	Retryable bool  // the same call may succeed later, unchanged
	Err       error // a sentinel or a cause; may be nil
}

func (e *Error) Error() string {
	s := "sojourn: "
	if e.Index >= 0 {
		s += fmt.Sprintf("job %d of the batch: ", e.Index)
	}
	if e.Field != "" {
		s += e.Field + ": "
	}
	return s + e.Message + " (" + e.Code + ")"
}

// Unwrap returns the sentinel or cause.
func (e *Error) Unwrap() error { return e.Err }

// Invalid returns an Error with CodeInvalid about one field.
func Invalid(field, format string, a ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Index: -1, Message: fmt.Sprintf(format, a...)}
}

// TooLarge returns an Error with CodeTooLarge that names the size and the limit, both in bytes.
func TooLarge(field string, size, limit int) *Error {
	return &Error{Code: CodeTooLarge, Field: field, Index: -1,
		Message: fmt.Sprintf("%d bytes exceed the limit of %d; store them elsewhere and pass a reference, or raise the store's MaxBytes", size, limit)}
}

// Conflict returns an Error with CodeConflict that unwraps to ErrConflict.
func Conflict(format string, a ...any) *Error {
	return &Error{Code: CodeConflict, Index: -1, Message: fmt.Sprintf(format, a...), Err: ErrConflict}
}

// NotFound returns an Error with CodeNotFound that unwraps to ErrNotFound.
func NotFound(format string, a ...any) *Error {
	return &Error{Code: CodeNotFound, Index: -1, Message: fmt.Sprintf(format, a...), Err: ErrNotFound}
}

// ErrorCode returns the code of the first *Error in err's chain, or "" if there is none.
func ErrorCode(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// AtIndex sets the index of the job in its batch in an error with a code; any other error is
// returned unchanged.
func AtIndex(index int, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		c := *e
		c.Index = index
		return &c
	}
	return err
}

// Limits that no option raises. MaxBytes bounds args, result, response body and checkpoint each,
// and is an option of the store (DefaultMaxBytes, at most MaxMaxBytes).
const (
	DefaultMaxBytes = 256 << 10
	MaxMaxBytes     = 16 << 20
	MaxName         = 128      // bytes of a queue, kind, tag or worker name
	MaxKey          = 255      // bytes of a key, group, source or message id
	MaxTags         = 64       // tags of a job
	MaxMeta         = 16 << 10 // bytes of names and values together
	MaxError        = 64 << 10 // bytes of an error text; longer ones are cut with a mark
	MaxReason       = 128      // bytes of a reason; longer ones are cut
	MaxProgress     = 4 << 10  // bytes of a progress text or log line; longer ones are cut with a mark
	MaxLogLines     = 100      // of a job: the first and the newest 99
	MaxHistory      = 100      // newest entries of a job's history that are kept, beside the first
	MaxBatch        = 1000     // jobs, outcomes or responses of one Store call
	MaxFind         = 1000     // jobs of one Find
)

const maxID = ID(1)<<53 - 1

// ValidName checks the name of a queue, kind, tag or worker: 1-128 bytes of A-Za-z0-9_.:/-.
func ValidName(field, name string) error {
	if len(name) < 1 || len(name) > MaxName {
		return Invalid(field, "a name has 1 to %d bytes, this one has %d", MaxName, len(name))
	}
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.:/-", c) >= 0) {
			return Invalid(field, "%.64q has %q at byte %d; allowed are A-Za-z0-9_.:/-", name, c, i)
		}
	}
	return nil
}

// ValidLimit checks the size of a page: 1 to MaxFind, or 0 for 100.
func ValidLimit(n int) error {
	if n < 0 || n > MaxFind {
		return Invalid("limit", "%d is out of range: 1 to %d, or 0 for 100", n, MaxFind)
	}
	return nil
}

// ValidKey checks a key, group, source or message id: 1-255 bytes of UTF-8 without control
// characters.
func ValidKey(field, key string) error {
	if len(key) < 1 || len(key) > MaxKey {
		return Invalid(field, "has %d bytes; allowed are 1 to %d", len(key), MaxKey)
	}
	if !utf8.ValidString(key) {
		return Invalid(field, "%.64q is not valid UTF-8", key)
	}
	if i := strings.IndexFunc(key, unicode.IsControl); i >= 0 {
		return Invalid(field, "%.64q has a control character at byte %d", key, i)
	}
	if strings.TrimSpace(key) == "" {
		return Invalid(field, "contains only white space; use visible characters")
	}
	return nil
}

// Resolve sets the fields that the job's options and kind left unset, from its queue and the
// built-in defaults, and removes double tags. Stores call it in the transaction that enqueues.
func (j *Job) Resolve(q Policy) {
	if j.set&setPriority == 0 && q.Priority != nil {
		j.Priority = *q.Priority
	}
	if j.set&setWeight == 0 && q.Weight != nil {
		j.Weight = *q.Weight
	}
	j.Policy = j.Policy.or(q).withDefaults()
	seen := make(map[string]bool, len(j.Tags))
	var tags []string
	for _, t := range j.Tags {
		if !seen[t] {
			seen[t], tags = true, append(tags, t)
		}
	}
	j.Tags = tags
}

// Explicit marks priority and weight as given, for jobs that were built from a wire format; queue
// defaults then leave them.
func (j *Job) Explicit(priority, weight bool) {
	j.set |= setMade
	if priority {
		j.set |= setPriority
	}
	if weight {
		j.set |= setWeight
	}
}

// Given reports whether priority and weight were given, as Explicit sets it.
func (j *Job) Given() (priority, weight bool) { return j.set&setPriority != 0, j.set&setWeight != 0 }

// Validate checks everything about a job that can be checked without the store's data. maxBytes
// bounds the args.
func (j *Job) Validate(maxBytes int) error {
	if j == nil {
		return Invalid("job", "is nil")
	}
	if j.err != nil {
		return j.err
	}
	if j.set&setMade == 0 {
		return Invalid("job", "make jobs with Kind.New or NewJob: a Job literal would have priority 0 and weight 0")
	}
	if j.ID < 0 || j.ID > maxID {
		return Invalid("id", "%d is out of range: 1 to 2^53-1, or 0 to draw one", j.ID)
	}
	if err := ValidName("kind", j.Kind); err != nil {
		return err
	}
	if err := ValidName("queue", j.Queue); err != nil {
		return err
	}
	for _, c := range []struct{ field, v string }{{"key", j.Key}, {"group", j.Group}} {
		if c.v != "" {
			if err := ValidKey(c.field, c.v); err != nil {
				return err
			}
		}
	}
	if len(j.Args) > maxBytes {
		return TooLarge("args", len(j.Args), maxBytes)
	}
	if err := ValidContentType("content_type", j.ContentType); err != nil {
		return err
	}
	if j.Weight < 0 || j.Weight > MaxWeight {
		return Invalid("weight", "%d is out of range: 0 to %d", j.Weight, MaxWeight)
	}
	if j.Delay < 0 || j.Delay > MaxHorizon {
		return Invalid("delay", "%v is out of range: 0 to 10 years", j.Delay)
	}
	if j.OnConflict > Replace {
		return Invalid("on_conflict", "%d is not one of ReturnExisting, ReturnError and Replace", j.OnConflict)
	}
	if err := ValidTags(j.Tags); err != nil {
		return err
	}
	if err := validMeta(j.Meta); err != nil {
		return err
	}
	if err := ValidDepends(j.Depends); err != nil {
		return err
	}
	if j.Name != "" {
		if err := ValidKey("name", j.Name); err != nil {
			return err
		}
	}
	return j.Policy.validate()
}

// ValidRunAt checks that t is at most ten years after the store's clock. Times in the past are
// fine: they mean now.
func ValidRunAt(t, now time.Time) error {
	if t.Sub(now) > MaxHorizon {
		return Invalid("run_at", "%s is more than 10 years ahead", t.Format(time.RFC3339))
	}
	return nil
}

// ValidTags checks the tags of a job.
func ValidTags(tags []string) error {
	if len(tags) > MaxTags {
		return Invalid("tags", "%d tags exceed the limit of %d", len(tags), MaxTags)
	}
	for _, t := range tags {
		if err := ValidName("tags", t); err != nil {
			return err
		}
	}
	return nil
}

func validMeta(meta map[string]string) error {
	size := 0
	for k, v := range meta {
		if !mediatype.IsToken(k) {
			return Invalid("meta", "%.64q is not a name: use letters, digits and !#$%%&'*+-.^_`|~", k)
		}
		if !utf8.ValidString(v) {
			return Invalid("meta", "the value of %.64q is not valid UTF-8", k)
		}
		size += len(k) + len(v)
	}
	if size > MaxMeta {
		return TooLarge("meta", size, MaxMeta)
	}
	return nil
}

// ValidJSON checks that bytes of the content type application/json, or without one, are one JSON
// text. No bytes are no value, and fine. Bytes of another content type are never parsed. The *Error
// has CodeInvalidJSON and names the offset.
func ValidJSON(field, contentType string, b []byte) error {
	if len(b) == 0 || !isJSON(contentType) || json.Valid(b) {
		return nil
	}
	var raw json.RawMessage
	err := json.Unmarshal(b, &raw)
	at := int64(len(b))
	if s, ok := errors.AsType[*json.SyntaxError](err); ok && !strings.HasPrefix(s.Error(), "unexpected end") {
		at = s.Offset - 1 // Offset counts the byte at fault
	}
	return &Error{Code: CodeInvalidJSON, Field: field, Index: -1,
		Message: fmt.Sprintf("invalid JSON: %v, at byte %d; correct it, or set another content type", err, at)}
}

// isJSON reports whether bytes of a content type are JSON, which is the default.
func isJSON(contentType string) bool {
	if contentType == "" || contentType == "application/json" {
		return true
	}
	t, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(t), "application/json")
}

// Cut shortens text to limit bytes without breaking a character, with a mark that gives the
// original length where there is room.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	mark := "… [cut, " + strconv.Itoa(len(text)) + " bytes]"
	if len(mark) > limit {
		mark = ""
	}
	cut := max(limit-len(mark), 0)
	for back := 0; cut > 0 && back <= min(cut, utf8.UTFMax-1); back++ { // bytes that are no text are cut anywhere
		if utf8.RuneStart(text[cut-back]) {
			cut -= back
			break
		}
	}
	return text[:cut] + mark
}

// ValidContentType checks a content type as HTTP has it (RFC 9110, section 8.3): type/subtype, and
// parameters such as charset=utf-8. Up to 255 bytes; empty is fine.
func ValidContentType(field, v string) error {
	switch v {
	case "", "application/json", "text/plain", "application/octet-stream":
		return nil
	}
	if len(v) > MaxKey {
		return TooLarge(field, len(v), MaxKey)
	}
	if !mediatype.Valid(v) {
		return Invalid(field, "%.64q is not a content type such as application/json or text/plain; charset=utf-8", v)
	}
	return nil
}

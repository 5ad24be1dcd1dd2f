package wire

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
)

// Codes that only the HTTP API has; the others are those of sojourn.Error.
const (
	CodeEmptyBody     = "empty_body"
	CodeMalformed     = "malformed_json"
	CodeTrailing      = "trailing_data"
	CodeDuplicate     = "duplicate_field"
	CodeUnknownField  = "unknown_field"
	CodeInvalidUTF8   = "invalid_utf8"
	CodeTooDeep       = "too_deep"
	CodeBodyTooLarge  = "body_too_large"
	CodeMediaType     = "unsupported_media_type"
	CodeEncoding      = "unsupported_encoding"
	CodeBodyTimeout   = "body_timeout"
	CodeHeaderSize    = "header_too_large"
	CodeMethod        = "method_not_allowed"
	CodeNoRoute       = "no_such_route"
	CodeUnauthorized  = "unauthorized"
	CodeForbidden     = access.CodeScope
	CodeTokenInURL    = "token_in_url"
	CodeCrossOrigin   = "cross_origin"
	CodeOverloaded    = "overloaded"
	CodeRateLimited   = "rate_limited"
	CodeNotAcceptable = "not_acceptable"
	CodeDraining      = "draining"
	CodeInternal      = "internal"
	CodeUnimplemented = "not_supported"
)

// status is the HTTP status of each code.
var status = map[string]int{
	sojourn.CodeInvalid: http.StatusUnprocessableEntity, sojourn.CodeTooLarge: http.StatusRequestEntityTooLarge,
	sojourn.CodeConflict: http.StatusConflict, sojourn.CodeNotFound: http.StatusNotFound, sojourn.CodeLeaseLost: http.StatusConflict,
	sojourn.CodeClosed: http.StatusServiceUnavailable, sojourn.CodeIDExpired: http.StatusConflict, sojourn.CodeOversize: http.StatusUnprocessableEntity,
	sojourn.CodeLowSpace: http.StatusInsufficientStorage, sojourn.CodeQueueFull: http.StatusTooManyRequests, sojourn.CodeQueueLimit: http.StatusUnprocessableEntity, sojourn.CodeUnknown: http.StatusServiceUnavailable,
	sojourn.CodeUnavailable: http.StatusServiceUnavailable, sojourn.CodeSchema: http.StatusServiceUnavailable, sojourn.CodeDrained: http.StatusConflict,
	sojourn.CodeInvalidJSON: http.StatusUnprocessableEntity, sojourn.CodeDependency: http.StatusUnprocessableEntity, sojourn.CodeCycle: http.StatusUnprocessableEntity,

	CodeEmptyBody: http.StatusBadRequest, CodeMalformed: http.StatusBadRequest, CodeTrailing: http.StatusBadRequest,
	CodeDuplicate: http.StatusBadRequest, CodeUnknownField: http.StatusUnprocessableEntity, CodeInvalidUTF8: http.StatusBadRequest,
	CodeTooDeep: http.StatusUnprocessableEntity, CodeBodyTooLarge: http.StatusRequestEntityTooLarge,
	CodeMediaType: http.StatusUnsupportedMediaType, CodeMethod: http.StatusMethodNotAllowed, CodeNoRoute: http.StatusNotFound,
	CodeUnauthorized: http.StatusUnauthorized, CodeForbidden: http.StatusForbidden, CodeTokenInURL: http.StatusBadRequest,
	CodeCrossOrigin: http.StatusForbidden, CodeRateLimited: http.StatusTooManyRequests, CodeNotAcceptable: http.StatusNotAcceptable, CodeOverloaded: http.StatusServiceUnavailable, CodeDraining: http.StatusServiceUnavailable,
	CodeEncoding: http.StatusUnsupportedMediaType, CodeBodyTimeout: http.StatusRequestTimeout, CodeHeaderSize: http.StatusRequestHeaderFieldsTooLarge,
	CodeInternal: http.StatusInternalServerError, CodeUnimplemented: http.StatusNotImplemented,
}

// StatusOf returns the HTTP status of a code: 500 for one that is not known.
func StatusOf(code string) int { return cmp.Or(status[code], http.StatusInternalServerError) }

// Problem is an error on the wire: RFC 9457 with a stable code. Inside a response it is the error
// of one item.
type Problem struct {
	Type      string  `json:"type,omitempty" doc:"the page about the code"`
	Title     string  `json:"title,omitempty" doc:"the status in words"`
	Status    int     `json:"status,omitempty" doc:"the HTTP status"`
	Detail    string  `json:"detail" doc:"what is wrong and what to do, for people"`
	Code      string  `json:"code" doc:"stable; programs decide by it"`
	Field     string  `json:"field,omitempty" doc:"the field at fault"`
	Index     *int    `json:"index,omitempty" doc:"of the item of a batch that is at fault, from 0"`
	Retryable bool    `json:"retryable" doc:"the same request may succeed later, unchanged"`
	Outcome   string  `json:"outcome,omitempty" enum:"not_stored,unknown" doc:"of a write that failed: whether it may have happened"`
	RequestID string  `json:"request_id,omitempty" doc:"as in the header X-Request-Id and in the server's log"`
	Errors    []Fault `json:"errors,omitempty" doc:"the fields at fault"`
}

// Fault is a field at fault.
type Fault struct {
	Pointer string `json:"pointer" doc:"RFC 6901, into the body"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// docsURL is where the codes are explained.
const docsURL = "https://github.com/sojourn-queue/sojourn/blob/main/docs/reference/errors.md#"

func refusal(code, field, format string, a ...any) *sojourn.Error {
	return &sojourn.Error{Code: code, Field: field, Index: -1, Message: fmt.Sprintf(format, a...)}
}

// Refusal makes an error with a code of this package.
func Refusal(code, format string, a ...any) *sojourn.Error { return refusal(code, "", format, a...) }

// Item is e inside of an answer.
func Item(e *sojourn.Error) *Problem {
	p := &Problem{Detail: e.Message, Code: e.Code, Field: e.Field, Retryable: e.Retryable}
	if e.Index >= 0 {
		p.Index = &e.Index
	}
	return p
}

// Of returns the problem document of e.
func Of(e *sojourn.Error, requestID string) *Problem {
	p := Item(e)
	p.Status = StatusOf(e.Code)
	p.Type, p.Title, p.RequestID = docsURL+e.Code, http.StatusText(p.Status), requestID
	switch {
	case e.Code == sojourn.CodeUnknown || e.Code == CodeInternal:
		p.Outcome = "unknown"
	case p.Status >= http.StatusInternalServerError:
		p.Outcome = "not_stored"
	}
	if e.Field != "" {
		p.Errors = []Fault{{Pointer: pointer(e), Code: e.Code, Message: e.Message}}
	}
	return p
}

// pointer returns the JSON pointer of the invalid field, if known: decoder errors have a pointer,
// domain errors a field name.
func pointer(e *sojourn.Error) string {
	if strings.HasPrefix(e.Field, "/") {
		return e.Field
	}
	at := "/" + strings.ReplaceAll(e.Field, ".", "/")
	if e.Index >= 0 {
		return "/" + strconv.Itoa(e.Index) + at
	}
	return at
}

// sentinels maps codes to the errors that they unwrap to.
var sentinels = map[string]error{
	sojourn.CodeConflict: sojourn.ErrConflict, sojourn.CodeNotFound: sojourn.ErrNotFound,
	sojourn.CodeLeaseLost: sojourn.ErrLeaseLost, sojourn.CodeClosed: sojourn.ErrClosed,
	sojourn.CodeDependency: sojourn.ErrNotFound, sojourn.CodeCycle: sojourn.ErrConflict,
}

// Err is the error again. nil gives nil.
func (p *Problem) Err() error {
	if p == nil {
		return nil
	}
	e := &sojourn.Error{Code: p.Code, Field: p.Field, Index: -1, Message: p.Detail, Retryable: p.Retryable, Err: sentinels[p.Code]}
	if p.Index != nil {
		e.Index = *p.Index
	}
	return e
}

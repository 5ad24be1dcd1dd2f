package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
)

// Codec is a form of JSON. The zero value is the plain form, for people and for clients that read
// JSON: bytes that are JSON are shown as JSON, without the white space between its parts, and text
// that is not UTF-8 is mended. The exact form gives every byte back.
type Codec struct{ Exact bool }

// ExactHeader, with the value ExactValue, marks a request body in the exact form and requests the
// response in it.
const (
	ExactHeader = "Sojourn-Bytes"
	ExactValue  = "base64"
)

var strict = json.JoinOptions(json.RejectUnknownMembers(true), jsontext.AllowInvalidUTF8(false))

func (c Codec) options() json.Options {
	if c.Exact {
		return jsonform.Exact
	}
	return jsonform.Plain
}

// Write encodes v.
func (c Codec) Write(w io.Writer, v any) error { return json.MarshalWrite(w, v, c.options()) }

// Marshal encodes v.
func (c Codec) Marshal(v any) ([]byte, error) { return json.Marshal(v, c.options()) }

// Read decodes an answer. Fields that this program does not know are passed over, so that a newer
// server can add some.
func (c Codec) Read(b []byte, v any) error { return json.Unmarshal(b, v, c.options()) }

// ReadStrict decodes a request: one document, no duplicate, unknown or wrongly written names, valid
// UTF-8, at most MaxDepth deep. The error is an *sojourn.Error whose Field is a JSON pointer.
func (c Codec) ReadStrict(b []byte, v any) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return refusal(CodeEmptyBody, "", "the body is empty; send a JSON document")
	}
	if jsonform.Depth(b) > jsonform.MaxDepth {
		return refusal(CodeTooDeep, "", `values are nested more than %d deep; send them as {"$base64": "…"}`, jsonform.MaxDepth)
	}
	err := json.Unmarshal(b, v, json.JoinOptions(c.options(), strict))
	if err == nil {
		return nil
	}
	return explain(err)
}

// explain turns an error of the decoder into one with a code.
func explain(err error) error {
	if own, ok := errors.AsType[*sojourn.Error](err); ok {
		e := *own
		if s, ok := errors.AsType[*json.SemanticError](err); ok {
			e.Field = string(s.JSONPointer)
		}
		return &e
	}
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at := string(s.JSONPointer)
		text := s.Err.Error()
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			return refusal(CodeDuplicate, at, "the object has this name twice; remove one of them")
		case strings.Contains(text, "UTF-8") || strings.Contains(text, "surrogate"):
			return refusal(CodeInvalidUTF8, at, `the text is not valid UTF-8; send bytes that are no text as {"$base64": "…"}, or the args as application/octet-stream`)
		case strings.Contains(text, "after top-level value"):
			return refusal(CodeTrailing, "", "there is more data after the end of the JSON document, at byte %d; send one document", s.ByteOffset)
		}
		return refusal(CodeMalformed, at, "the body is not JSON: %.120s at byte %d", text, s.ByteOffset)
	}
	if s, ok := errors.AsType[*json.SemanticError](err); ok {
		at := string(s.JSONPointer)
		if errors.Is(err, json.ErrUnknownName) {
			return refusal(CodeUnknownField, at, "there is no such field here; names are written in lower case, as in the description at /docs")
		}
		return refusal(sojourn.CodeInvalid, at, "%s", misfit(s))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return refusal(CodeMalformed, "", "the body ends in the middle of the JSON document")
	}
	return refusal(CodeMalformed, "", "the body is not JSON: %.120s", err)
}

// misfit describes a type mismatch: the JSON type found and the type expected, not the value.
func misfit(s *json.SemanticError) string {
	found := s.JSONKind.String()
	if found == "" || s.JSONKind == 0 {
		found = "the value"
	}
	if s.GoType == nil {
		return found + " does not fit here"
	}
	wants := s.GoType.Kind().String()
	switch k := s.GoType.Kind(); {
	case s.GoType.String() == "time.Time":
		wants = "a time with its zone, such as 2026-01-31T18:00:00Z"
	case k >= reflect.Int && k <= reflect.Int64:
		wants = "a whole number of " + s.GoType.Kind().String()[3:] + " bits"
	case k == reflect.Slice:
		wants = "an array"
	case k == reflect.Struct || k == reflect.Map:
		wants = "an object"
	case k == reflect.Bool:
		wants = "true or false"
	}
	return found + " stands where " + wants + " belongs"
}

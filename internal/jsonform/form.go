// Package jsonform is the one form of JSON that the HTTP API and the command share. Durations are
// strings with a unit, such as "90s". Bytes (args, result, checkpoint, body) are either any JSON
// value, which represents its own text, or {"$base64": "…"}. Field names and constant values are
// those of the Go types.
package jsonform

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/layers"
)

// MaxDepth bounds how deep values are nested, in requests and in bytes that are shown as JSON.
const MaxDepth = 64

var common = json.JoinOptions(jsonv1.OmitEmptyWithLegacySemantics(true), jsontext.PreserveRawStrings(true), json.Deterministic(true),
	json.WithUnmarshalers(json.JoinUnmarshalers(durationUnmarshaler, bytesUnmarshaler, patchUnmarshaler, nameUnmarshalers)))

// Plain is the form for people and for clients that read JSON: bytes that are JSON are shown as
// JSON, without the white space between its parts, and text that is not UTF-8 is mended.
var Plain = json.JoinOptions(common, jsontext.AllowInvalidUTF8(true), json.WithMarshalers(json.JoinMarshalers(plainMarshaler, durationMarshaler, nameMarshalers)))

// Exact is the form that gives every byte back. It reads text that is not UTF-8 from base64.
var Exact = json.JoinOptions(common, json.WithMarshalers(json.JoinMarshalers(exactMarshaler, textMarshaler, durationMarshaler, nameMarshalers)),
	json.WithUnmarshalers(json.JoinUnmarshalers(textUnmarshaler, durationUnmarshaler, bytesUnmarshaler, patchUnmarshaler, nameUnmarshalers)))

// Marshal encodes v in the plain form, on one line.
func Marshal(v any) ([]byte, error) { return json.Marshal(v, Plain) }

// base64Name is the only member of the object that represents bytes.
const base64Name = "$base64"

// plainMarshaler writes bytes that are JSON as JSON, except JSON that a reader would mistake for
// the object that represents bytes.
var plainMarshaler = json.MarshalToFunc(func(e *jsontext.Encoder, b []byte) error {
	if b == nil {
		return e.WriteToken(jsontext.Null)
	}
	if shown(b) {
		return e.WriteValue(b)
	}
	return writeBase64(e, b)
})

var exactMarshaler = json.MarshalToFunc(func(e *jsontext.Encoder, b []byte) error {
	if b == nil {
		return e.WriteToken(jsontext.Null)
	}
	return writeBase64(e, b)
})

func shown(b []byte) bool {
	return Depth(b) <= MaxDepth/2 && jsontext.Value(b).IsValid() && string(b) != "null" && !bytes.Contains(b, []byte(base64Name))
}

// Depth returns the nesting depth of a JSON document. For other input the result is meaningless.
func Depth(b []byte) (deepest int) {
	now, text := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			text = !text
		case text && c == '\\':
			i++
		case text:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

func writeBase64(e *jsontext.Encoder, b []byte) error {
	text := make([]byte, 0, base64.StdEncoding.EncodedLen(len(b))+16)
	text = append(text, `{"`+base64Name+`":"`...)
	text = base64.StdEncoding.AppendEncode(text, b)
	return e.WriteValue(append(text, `"}`...))
}

// textMarshaler writes text that is not UTF-8 like bytes.
var textMarshaler = json.MarshalToFunc(func(e *jsontext.Encoder, s string) error {
	if utf8.ValidString(s) {
		return errors.ErrUnsupported
	}
	return writeBase64(e, []byte(s))
})

var textUnmarshaler = json.UnmarshalFromFunc(func(d *jsontext.Decoder, s *string) error {
	if d.PeekKind() != '{' {
		return errors.ErrUnsupported
	}
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	b, _, err := fromBase64(v)
	*s = string(b)
	return err
})

var bytesUnmarshaler = json.UnmarshalFromFunc(func(d *jsontext.Decoder, b *[]byte) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	if v.Kind() == 'n' {
		*b = nil
		return nil
	}
	if v.Kind() == '{' {
		decoded, is, err := fromBase64(v)
		if is || err != nil {
			*b = decoded
			return err
		}
	}
	*b = append([]byte{}, v...)
	return nil
})

// patchUnmarshaler reads null as the request to reset a setting, as in a JSON merge patch.
var patchUnmarshaler = json.UnmarshalFromFunc(func(d *jsontext.Decoder, p *sojourn.QueuePatch) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	v = v.Clone() // the decoder reuses it
	type plain sojourn.QueuePatch
	if err := json.Unmarshal(v, (*plain)(p), d.Options()); err != nil || v.Kind() != '{' {
		return err
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(v, &members); err != nil {
		return err
	}
	for _, name := range layers.Known[sojourn.QueuePatch]() {
		if m, ok := members[name]; ok && m.Kind() == 'n' {
			p.Reset = append(p.Reset, name)
		}
	}
	return nil
})

// fromBase64 decodes {"$base64": "…"}; is reports whether v has that form.
func fromBase64(v jsontext.Value) (b []byte, is bool, err error) {
	inner := strings.TrimSpace(string(v[1 : len(v)-1]))
	rest, ok := strings.CutPrefix(inner, `"`+base64Name+`"`)
	if !ok {
		return nil, false, nil
	}
	rest, ok = strings.CutPrefix(strings.TrimSpace(rest), ":")
	rest = strings.TrimSpace(rest)
	if !ok || len(rest) < 2 || rest[0] != '"' || rest[len(rest)-1] != '"' {
		return nil, true, sojourn.Invalid("", `%s stands alone in its object, with a text`, base64Name)
	}
	b, err = base64.StdEncoding.DecodeString(rest[1 : len(rest)-1])
	if err != nil {
		return nil, true, sojourn.Invalid("", "is not base64 in the standard alphabet with padding")
	}
	return append([]byte{}, b...), true, nil
}

// Durations that are no length of time.
const (
	noneText = "none" // sojourn.None
	nowText  = "now"  // sojourn.Now
)

// FormatDuration writes d in seconds, with as many decimals as it needs: "90s", "0.5s"; or as
// "none" or "now".
func FormatDuration(d time.Duration) string {
	sign, n := "", uint64(d)
	if d < 0 {
		sign, n = "-", -n
	}
	whole, part := n/uint64(time.Second), n%uint64(time.Second)
	if d == sojourn.None {
		return noneText
	} else if d == sojourn.Now {
		return nowText
	}
	if part == 0 {
		return sign + strconv.FormatUint(whole, 10) + "s"
	}
	return sign + strings.TrimRight(fmt.Sprintf("%d.%09d", whole, part), "0") + "s"
}

// ParseDuration reads a duration with its unit, as in 90s, 1.5h or 1h30m, or "none" or "now".
func ParseDuration(text string) (time.Duration, error) {
	switch text {
	case noneText:
		return sojourn.None, nil
	case nowText:
		return sojourn.Now, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, sojourn.Invalid("", "%.64q is not a duration with its unit, such as 90s, 1.5h or 1h30m", text)
	}
	return d, nil
}

var (
	durationMarshaler = json.MarshalToFunc(func(e *jsontext.Encoder, d time.Duration) error {
		return e.WriteToken(jsontext.String(FormatDuration(d)))
	})
	durationUnmarshaler = json.UnmarshalFromFunc(func(dec *jsontext.Decoder, d *time.Duration) error {
		t, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if t.Kind() != '"' {
			return sojourn.Invalid("", "a duration is a text with its unit, such as \"90s\", \"1.5h\" or \"1h30m\"")
		}
		*d, err = ParseDuration(t.String())
		return err
	})
)

// Names are the constants that are numbers in Go and words here.
var (
	RecoveryNames   = []string{"retry", "fail"}
	WaitModeNames   = []string{"any", "all"}
	OnConflictNames = []string{"existing", "error", "replace"}
)

// inherited returns the names of a type whose zero value means unset.
func inherited(names []string) []string { return append([]string{""}, names...) }

var (
	nameMarshalers = json.JoinMarshalers(named[sojourn.Recovery](inherited(RecoveryNames)),
		named[sojourn.WaitMode](WaitModeNames),
		named[sojourn.OnConflict](OnConflictNames))
	nameUnmarshalers = json.JoinUnmarshalers(unnamed[sojourn.Recovery](inherited(RecoveryNames)),
		unnamed[sojourn.WaitMode](WaitModeNames),
		unnamed[sojourn.OnConflict](OnConflictNames))
)

// named writes a constant; one out of range keeps its number, so that the reader refuses it.
func named[T ~uint8](names []string) *json.Marshalers {
	return json.MarshalToFunc(func(e *jsontext.Encoder, v T) error {
		if int(v) < len(names) {
			return e.WriteToken(jsontext.String(names[v]))
		}
		return e.WriteToken(jsontext.String(strconv.Itoa(int(v))))
	})
}

func unnamed[T ~uint8](names []string) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *T) error {
		t, err := d.ReadToken()
		if err != nil {
			return err
		}
		for i, n := range names {
			if t.Kind() == '"' && n == t.String() && n != "" {
				*v = T(i)
				return nil
			}
		}
		return sojourn.Invalid("", "is not one of the words %s", strings.Join(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "" }), ", "))
	})
}

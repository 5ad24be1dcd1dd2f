package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
)

// FuzzReadStrict compares the strict decoder with the standard library's and with the inputs that
// it must refuse. Accepted input is one JSON document in UTF-8 without duplicate names and not too
// deep, and survives a round trip through Marshal. A refusal has a code and echoes little of the
// input.
func FuzzReadStrict(f *testing.F) {
	for _, s := range []string{`{"jobs":[{"kind":"k"}]}`, `{"jobs":[{"kind":"k","args":{"a":[1,2.5e3,"\u00e9",null]},"tags":["x"],"meta":{"a":"b"}}],"partial":true}`,
		`{"jobs":[{"kind":"k","args":{"$base64":"AAH/"},"delay":"1h30m","run_at":"2026-01-31T18:00:00Z"}]}`, `{"jobs":[{"kind":"k","kind":"j"}]}`,
		`{"jobs":[{"Kind":"k"}]}`, "{\"jobs\":[{\"kind\":\"\xff\"}]}", `{"jobs":[{"kind":"\ud800"}]}`, `{"jobs":[]} x`, ` `, `{"jobs"`, strings.Repeat("[", 100),
		`{"jobs":[{"kind":"k","args":{"a":1,"a":2}}]}`, `{"jobs":[{"kind":"k","args":{"$base64":"AA==","b":1}}]}`, `{"jobs":[{"kind":"k","priority":1e3}]}`,
		`{"jobs":[{"kind":"k","policy":{"windows":[[{"start":"22:00","end":"06:00"}]],"backoff":{"first":"-1s"}},"on_conflict":"replace","weight":0}]}`,
		`{"jobs":[{"kind":"a\u0000","args":"\u0000"}]}`, `{"jobs":[{"kind":"k","args":{"$base64" : "AA=="}}]}`} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, in []byte, exact bool) {
		c := Codec{Exact: exact}
		var got EnqueueRequest
		if err := c.ReadStrict(in, &got); err != nil {
			e, ok := errors.AsType[*sojourn.Error](err)
			if !ok || status[e.Code] == 0 || len(e.Message) > 400 {
				t.Fatalf("refused with %#v", err)
			}
			return
		}
		if !json.Valid(in) || !utf8.Valid(in) || jsonform.Depth(in) > jsonform.MaxDepth {
			t.Fatalf("took %q", in)
		}
		if name := duplicate(json.NewDecoder(bytes.NewReader(in))); name != "" {
			t.Fatalf("took %q, in which %q stands twice", in, name)
		}
		b, err := c.Marshal(got)
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", got, err)
		}
		var again EnqueueRequest
		if err := c.ReadStrict(b, &again); err != nil {
			t.Fatalf("%s is refused: %v", b, err)
		}
		if twice, err := c.Marshal(again); err != nil || !bytes.Equal(b, twice) {
			t.Fatalf("%s became %s, %v", b, twice, err)
		}
		for i := range got.Jobs {
			if exact && !bytes.Equal(got.Jobs[i].Args, again.Jobs[i].Args) {
				t.Fatalf("args %q became %q", got.Jobs[i].Args, again.Jobs[i].Args)
			}
		}
	})
}

// duplicate finds a duplicate name within one object, using the standard library.
func duplicate(d *json.Decoder) string {
	type level struct {
		names map[string]bool // nil in an array
		value bool            // a value comes next
	}
	var levels []*level
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) || err != nil {
			return ""
		}
		var top *level
		if len(levels) > 0 {
			top = levels[len(levels)-1]
		}
		if name, ok := token.(string); ok && top != nil && top.names != nil && !top.value {
			if top.names[name] {
				return name
			}
			top.names[name], top.value = true, true
			continue
		}
		if top != nil {
			top.value = false
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, &level{names: map[string]bool{}})
		case json.Delim('['):
			levels = append(levels, &level{})
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:len(levels)-1]
		}
	}
}

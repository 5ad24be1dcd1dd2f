package redact

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

func paths(t testing.TB, list ...string) Paths {
	t.Helper()
	p, err := Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestHide(t *testing.T) {
	p := paths(t, "args.card.number", "args.items.*.pin", "args.token", "result", "response.a.b")
	deep := strings.Repeat(`[`, 9000) + `{"token":1}` + strings.Repeat(`]`, 9000)
	for _, c := range [][3]string{
		{"args", `{"card":{"number":"4111","name":"A"}}`, `{"card":{"number":"[redacted]","name":"A"}}`},
		{"args", `{"card": {"number" : 41111111111111111111, "x":1.0e5}, "n":12345678901234567890}`, `{"card": {"number" : "[redacted]", "x":1.0e5}, "n":12345678901234567890}`},
		{"args", `{"card":{"number":{"a":[1,{"b":2}]},"number":[[],{}]}}`, `{"card":{"number":"[redacted]","number":"[redacted]"}}`},
		{"args", `{"CARD":{"Number":1},"c\u0061rd":{"\u006eumber":2}}`, `{"CARD":{"Number":"[redacted]"},"c\u0061rd":{"\u006eumber":"[redacted]"}}`},
		{"args", `[{"card":{"number":1}},[{"card":[{"number":2},3]}]]`, `[{"card":{"number":"[redacted]"}},[{"card":[{"number":"[redacted]"},3]}]]`},
		{"args", `{"items":{"x":{"pin":1},"y":{"pin":2}},"pin":3}`, `{"items":{"x":{"pin":"[redacted]"},"y":{"pin":"[redacted]"}},"pin":3}`},
		{"args", `{"other":{"token":1},"token":null}`, `{"other":{"token":1},"token":"[redacted]"}`},
		{"args", `{"token":1} {"token":2}`, `{"token":"[redacted]"} {"token":"[redacted]"}`},
		{"args", `{"token":1,"a":"token","b":["token",5]}`, `{"token":"[redacted]","a":"token","b":["token",5]}`},
		{"args", `{"token":{"cut`, `{"token":"[redacted]"`},
		{"args", `{"token":`, `{"token":"[redacted]"`},
		{"args", `{"token":1} junk`, `{"token":"[redacted]"} junk`},
		{"args", "not JSON", "not JSON"},
		{"args", "\x00\xff", "\x00\xff"},
		{"args", "", ""},
		{"args", deep, strings.Replace(deep, "1", Mark, 1)},
		{"result", "text of any sort", Mark},
		{"response", `{"a":{"b":{"token":1}}}`, `{"a":{"b":"[redacted]"}}`},
		{"checkpoint", `{"token":1}`, `{"token":1}`},
	} {
		raw := []byte(c[1])
		if got := string(p.hide(c[0], raw)); got != c[2] {
			t.Errorf("%s %.80s:\ngot  %.200s\nwant %.200s", c[0], c[1], got, c[2])
		}
		if string(raw) != c[1] {
			t.Errorf("%s: the value itself has changed", c[1])
		}
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"", "card", "args.", ".args", "args..x", "Args.x", "meta.x", "args." + strings.Repeat("x", sojourn.MaxKey), "args" + strings.Repeat(".x", maxSteps)} {
		if _, err := Parse([]string{text}); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if _, err := Parse(make([]string, maxPaths+1)); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		t.Errorf("many: %v", err)
	}
}

// FuzzHide: JSON stays JSON, no value of the path is left, and the rest keeps its bytes.
func FuzzHide(f *testing.F) {
	for _, s := range []string{`{"secret":"SECRET"}`, `[{"a":[{"secret":{"x":"SECRET"}}]}]`, `{"SeCrEt":1,"b":2} {"secret":3`, `{"\u0073ecret":[1]}`} {
		f.Add([]byte(s))
	}
	p := paths(f, "args.secret")
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		got := p.hide("args", raw)
		if !bytes.Equal(raw, before) {
			t.Fatal("the value itself has changed")
		}
		if !json.Valid(raw) {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%q became %q", raw, got)
		}
		var v map[string]json.RawMessage
		if json.Unmarshal(got, &v) == nil {
			for name, value := range v {
				if strings.EqualFold(name, "secret") && string(value) != Mark {
					t.Fatalf("%q became %q", raw, got)
				}
			}
		}
		if again := p.hide("args", got); !bytes.Equal(again, got) {
			t.Fatalf("%q, twice %q", got, again)
		}
	})
}

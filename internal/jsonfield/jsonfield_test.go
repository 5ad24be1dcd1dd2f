package jsonfield_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/jsonfield"
)

func TestValid(t *testing.T) {
	for _, path := range []string{"args.customer", "args.customer.id", "result.a-b_c", "meta.a", "meta.a..b.", "args.größe"} {
		if why := jsonfield.Valid(path); why != "" || !jsonfield.IsPath(path) {
			t.Errorf("%s: %s", path, why)
		}
	}
	for _, path := range []string{"", "args", "args.", "meta.", "kind", "args..a", "args.a.", "args.a b", "args.a:b", "args.a,b", `args."a"`, "args.a>b", "error.a", "args.\x00", "args.\xff",
		"args." + strings.Repeat("a", jsonfield.MaxPath)} {
		if jsonfield.Valid(path) == "" {
			t.Errorf("%q is valid", path)
		}
	}
}

func TestValues(t *testing.T) {
	paths := []string{"args.text", "args.int", "args.big", "args.float", "args.whole", "args.exp", "args.tiny", "args.zero", "args.yes", "args.null", "args.list", "args.o", "args.o.in.deep", "args.empty",
		"args.nul", "args.long", "args.gone", "args.text.more", "args.twice", "meta.a.b", "result.id"}
	src := jsonfield.Source{
		Args: []byte(`{"text": "a \"b\" ü", "int": 42, "big": 12345678901234567890123, "float": 2.50, "whole": 1.0, "exp": 1e3, "tiny": 1e-9, "zero": -0, "yes": true, "null": null,
			"list": [1], "o": {"in": {"deep": "d"}}, "empty": "", "nul": "a\u0000b", "long": "` + strings.Repeat("x", jsonfield.MaxValue+1) + `", "twice": 1, "twice": 2}`),
		Meta:   []byte(`{"a.b": "m"}`),
		Result: []byte(`{"id": "r1"}`),
	}
	got := map[string]string{}
	src.Values(paths, func(path, value string) { got[path] = value })
	want := map[string]string{"args.text": `a "b" ü`, "args.int": "42", "args.big": "12345678901234567890123", "args.float": "2.5", "args.whole": "1", "args.exp": "1000", "args.tiny": "1e-09",
		"args.zero": "0", "args.yes": "true", "args.o.in.deep": "d", "args.twice": "2", "meta.a.b": "m", "result.id": "r1"}
	if !maps.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, none := range []string{"", "null", "[1]", `"text"`, "no JSON", "{"} {
		jsonfield.Source{Args: []byte(none)}.Values([]string{"args.a", "args.a.b"}, func(path, value string) { t.Errorf("%s has %s at %s", none, value, path) })
	}
}

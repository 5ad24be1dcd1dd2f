package fingerprint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestOf(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{" \n\t", ""},
		{"connection refused", "connection refused"},
		{"order 4711 not found", "order # not found"},
		{"order-4711: no stock", "order-#: no stock"},
		{"user_8f3a is locked", "user_# is locked"},
		{"rows [1 2 3]", "rows [#]"},
		{"rows [1, 2]", "rows [#]"},
		{"job 550e8400-e29b-41d4-a716-446655440000 failed", "job # failed"},
		{"job urn:uuid:abcdabcd-abcd-abcd-abcd-abcdabcdabcd failed", "job # failed"},
		{"commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "commit #"},
		{"id 01ARZ3NDEKTSV4RRFFQ69G5FAV", "id #"},
		{"pointer 0xc000012345", "pointer #"},
		{`no customer "Jane Doe" here`, `no customer "…" here`},
		{`bad value "a \"b\" c", want d`, `bad value "…", want d`},
		{"no customer 'Jane' here", `no customer "…" here`},
		{"can't open the customer's file", "can't open the customer's file"},
		{"column `name` is missing", `column "…" is missing`},
		{"Kunde „Müller“ fehlt", `Kunde "…" fehlt`},
		{"client « Jean » absent", `client "…" absent`},
		{`an open " quote 5`, `an open " quote #`},
		{"dial tcp 10.0.0.7:5432: connect: connection refused", "dial tcp <address>: connect: connection refused"},
		{"dial tcp [2001:db8::1]:443: i/o timeout", "dial tcp [<address>]:#: i/o timeout"},
		{"lookup db-7.internal:5432 failed", "lookup <address> failed"},
		{"mail to jane.doe@shop.example bounced", "mail to <address> bounced"},
		{"Get https://shop.example/orders/17?x=1: EOF", "Get <url>: EOF"},
		{"open /var/lib/shop/42.json: no such file", "open <path>: no such file"},
		{`open C:\shop\42.json: denied`, "open <path>: denied"},
		{"open ./a/b.go:17: denied", "open <path>: denied"},
		{"one and/or two", "one and/or two"},
		{"at 2026-03-02T09:00:00Z", "at #T#Z"},
		{"took 1.5s of 30s", "took #s of #s"},
		{"http2: stream 5 closed", "http#: stream # closed"},
		{"id=42 name=jane", "id=# name=jane"},
		{"заказ 42 не найден", "заказ # не найден"},
		{"注文 ４２ がない", "注文 # がない"},
		{"a  b\r\n\tc", "a b c"},
		{"bad \xff byte", "bad \uFFFD byte"},
	} {
		if got := Of(c.text); got != c.want {
			t.Errorf("Of(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

// TestCauses: 20 causes with ids in their messages have 20 fingerprints.
func TestCauses(t *testing.T) {
	seen := map[string]bool{}
	for i := range 5_000 {
		for _, format := range Causes {
			seen[Of(fmt.Sprintf(format, i, fmt.Sprintf("%08x-1c2d-4abc-9def-%012x", i*7919, i)))] = true
		}
	}
	if len(seen) != len(Causes) {
		t.Errorf("%d fingerprints of %d causes: %q", len(seen), len(Causes), slices.Collect(maps.Keys(seen)))
	}
}

func TestLongTexts(t *testing.T) {
	for _, text := range []string{strings.Repeat("é", MaxText), strings.Repeat("word ", MaxText), strings.Repeat(`"`, MaxText), strings.Repeat("1 ", MaxText), strings.Repeat("'a", MaxText)} {
		if got := Of(text); len(got) > Max || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
	if a, b := Of(strings.Repeat("x", MaxText)+" one"), Of(strings.Repeat("x", MaxText)+" two"); a != b {
		t.Error("text after MaxText counts")
	}
}

func FuzzOf(f *testing.F) {
	for _, format := range Causes {
		f.Add(fmt.Sprintf(format, 17, "550e8400-e29b-41d4-a716-446655440000"))
	}
	f.Add("dial [::1]:80 'x \xff „")
	f.Add("0x1F 1x2 ...//a ~/b \\\\host\\c C:\\d")
	f.Fuzz(func(t *testing.T, text string) {
		got := Of(text)
		if len(got) > Max || !utf8.ValidString(got) {
			t.Fatalf("Of(%q) = %q: %d bytes", text, got, len(got))
		}
		if strings.IndexFunc(got, func(r rune) bool { return unicode.IsDigit(r) || unicode.IsControl(r) }) >= 0 || strings.Contains(got, "  ") {
			t.Fatalf("Of(%q) = %q has digits, control characters or two spaces", text, got)
		}
		other := strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return '0' + (r-'0'+3)%10
			}
			return r
		}, text)
		if utf8.ValidString(text) && Of(other) != got {
			t.Fatalf("Of(%q) = %q, with other digits %q", text, got, Of(other))
		}
	})
}

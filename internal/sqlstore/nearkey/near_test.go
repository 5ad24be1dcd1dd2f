package nearkey

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSimilar(t *testing.T) {
	for _, pair := range [][2]string{
		{"INV-43", "inv-43"}, {"inv-43", "INV-43"}, {"Inv-43", "INV-43"}, {"inv_43", "inv-43"}, {"inv43", "inv-43"}, {"inv-43", "INV43"}, {"INV 0043", "inv-43"},
		{"inv-43", "INV/000043"}, {"0043", "43"}, {"43", "0000000043"}, {" inv-43", "inv-43"}, {"inv-43", "inv-34"}, {"inv-43", "inv-4"}, {"inv-43", "inv-433"},
		{"inv-43", "inv-48"}, {"order:2026:17", "order-2026-17"}, {"zahlung-ä1", "zahlung-1"}, {"a", "b"}, {"inv-0", "inv-00"},
	} {
		if near := Similar(pair[0]); !slices.Contains(near, pair[1]) {
			t.Errorf("%q is not near %q", pair[1], pair[0])
		}
	}
	for _, pair := range [][2]string{{"inv-43", "inv-43"}, {"inv-43", "inv-57"}, {"inv-43", ""}} {
		if slices.Contains(Similar(pair[0]), pair[1]) {
			t.Errorf("%q is near %q", pair[1], pair[0])
		}
	}
}

func FuzzSimilar(f *testing.F) {
	for _, s := range []string{"", "-", "inv-43", "00000000000000000000000000000000000000", strings.Repeat("aB3", 85), "\xff\x00", "ǅ-ß"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		near := Similar(key)
		if len(near) > maxNear || slices.Contains(near, key) || slices.Contains(near, "") {
			t.Errorf("%q: %d keys, among them itself or none", key, len(near))
		}
		for _, n := range near {
			if utf8.ValidString(key) && !utf8.ValidString(n) {
				t.Errorf("%q: %q is no text", key, n)
			}
		}
	})
}

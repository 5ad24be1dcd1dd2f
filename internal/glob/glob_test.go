package glob

import "testing"

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"**", "a", true}, {"", "a", false}, {"", "", false}, {"a", "a", true}, {"a", "b", false}, {"a*", "a", true}, {"a*", "ab", true},
		{"a*", "ba", false}, {"*a", "ba", true}, {"*a", "ab", false}, {"a*a", "a", false}, {"a*a", "aa", true}, {"a*b*c", "abc", true}, {"a*b*c", "a-b-c", true},
		{"a*b*c", "acb", false}, {"a*b*b", "ab", false}, {"payments-*", "payments-eu", true}, {"payments-*", "payments", false}, {"a*", "", false},
	} {
		if got := Match(c.pattern, c.name); got != c.want {
			t.Errorf("%q, %q: %v", c.pattern, c.name, got)
		}
	}
}

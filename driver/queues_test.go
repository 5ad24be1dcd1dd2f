package driver

import (
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

// spec:O9: names, patterns and exclusions select queues.
func TestSelectsQueue(t *testing.T) {
	for _, c := range []struct {
		entries, queue string
		want           int
	}{
		{"a b", "b", 1}, {"a b", "c", -1}, {"payments-*", "payments-eu", 0}, {"payments-*", "payments", -1}, {"x payments-* *", "payments-eu", 1}, {"* x payments-*", "payments-eu", 2},
		{"payments-e* payments-eu", "payments-eu", 1}, {"*b a*", "ab", 0}, {"a* *b", "ab", 1},
		{"payments-* !payments-test", "payments-test", -1}, {"!payments-test payments-*", "payments-test", -1}, {"* !*-test", "payments-test", -1},
		{"* !*-test", "payments-eu", 0}, {"a !a", "a", -1}, {"*a*", "bab", 0},
	} {
		if got := SelectsQueue(strings.Fields(c.entries), c.queue); got != c.want {
			t.Errorf("%s selects %s by %d, want %d", c.entries, c.queue, got, c.want)
		}
	}
}

func TestValidQueues(t *testing.T) {
	for _, good := range []string{"", "a", "a b", "*", "payments-* !payments-test", "a*b*c !*", "* !a*b"} {
		if err := ValidQueues("queues", strings.Fields(good)); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range [][]string{{""}, {"a b"}, {"a", "a"}, {"a*", "a*"}, {"!a"}, {"!*"}, {"!"}, {"!!a", "b"}, {"a!"}, {"a?"}, {strings.Repeat("a", sojourn.MaxName) + "*"}} {
		if err := ValidQueues("queues", bad); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

package parse

import (
	"testing"
	"time"
)

func TestLimits(t *testing.T) {
	var age time.Duration
	var count int64
	for _, c := range []struct {
		text      string
		age       time.Duration
		count     int64
		noAge     bool
		noCount   bool
		shownLike string
	}{
		{"none", -1, -1, false, false, "none"}, {"48h", 48 * time.Hour, 0, false, true, "48h0m0s"}, {"7", 0, 7, true, false, "7"},
		{"-1", 0, -1, true, false, "none"}, {"-1ns", -1, 0, false, true, "none"}, {"0", 0, 0, false, false, ""}, {"None", 0, 0, true, true, ""},
	} {
		age, count = 0, 0
		a, n := DurationOrNone(&age), CountOrNone(&count)
		if err := a.Set(c.text); (err != nil) != c.noAge || age != c.age || !c.noAge && a.String() != c.shownLike {
			t.Errorf("the duration %q is %v, %q, error %v", c.text, age, a, err)
		}
		if err := n.Set(c.text); (err != nil) != c.noCount || count != c.count || !c.noCount && n.String() != c.shownLike {
			t.Errorf("the count %q is %d, %q, error %v", c.text, count, n, err)
		}
	}
}

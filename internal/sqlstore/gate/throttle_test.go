package gate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/throttle"
)

func asking(own throttle.ThrottlerFunc) *throttlers {
	return &throttlers{Own: map[string]throttle.Throttler{"q": own}, Compile: func(text string) (throttle.Throttler, error) {
		if text == "bad" {
			return nil, errors.New("1:1: bad")
		}
		return throttle.ThrottlerFunc(func(context.Context, *throttle.Candidate, *throttle.Flight) (throttle.Admission, error) {
			return throttle.Admission{Start: text == "yes"}, nil
		}), nil
	}}
}

func starts(context.Context, *throttle.Candidate, *throttle.Flight) (throttle.Admission, error) {
	return throttle.Admission{Start: true}, nil
}

// TestThrottleFailsClosed: a text that does not compile, one without a compiler, an error and a
// panic refuse, are counted and give the reason (inv:T5).
func TestThrottleFailsClosed(t *testing.T) {
	for _, c := range []struct {
		text   string
		th     *throttlers
		want   string // "" starts
		failed int64
	}{
		{"", asking(starts), "", 0},
		{"yes", asking(starts), "", 0},
		{"yes", &throttlers{Compile: asking(nil).Compile}, "", 0},
		{"go", asking(starts), "", 0},
		{"no", asking(starts), "not now", 0},
		{"bad", asking(starts), "1:1: bad", 1},
		{"yes", &throttlers{}, "knows no rules", 1},
		{"go", &throttlers{}, "wants a throttler in Go", 1},
		{"", asking(func(context.Context, *throttle.Candidate, *throttle.Flight) (throttle.Admission, error) {
			return throttle.Admission{Start: true}, errors.New("no idea")
		}), "no idea", 1},
		{"", asking(func(context.Context, *throttle.Candidate, *throttle.Flight) (throttle.Admission, error) {
			panic("oops")
		}), "panicked: oops", 1},
	} {
		p := c.th.begin("q", c.text)
		a := p.decide(&throttle.Candidate{}, &throttle.Flight{})
		p.end(time.Now())
		text := a.Text
		if !a.Start && text == "" {
			text = "not now"
		}
		if a.Start != (c.want == "") || !strings.Contains(text, c.want) || strings.Contains(text, "\n") || p.failed != c.failed {
			t.Errorf("%q: %+v, %d failures; want %q, %d", c.text, a, p.failed, c.want, c.failed)
		}
	}
}

// TestThrottleIsNotWaitedFor: Go code that does not return ends the pass, is not called again until
// it returns, and does not delay other queues (inv:T5).
func TestThrottleIsNotWaitedFor(t *testing.T) {
	back, asked := make(chan struct{}), make(chan struct{}, 10)
	th := asking(func(context.Context, *throttle.Candidate, *throttle.Flight) (throttle.Admission, error) {
		asked <- struct{}{}
		<-back
		return throttle.Admission{Start: true}, nil
	})
	p := th.begin("q", "")
	for range 3 { // the second and third are refused without being asked about
		if a := p.decide(&throttle.Candidate{}, &throttle.Flight{}); a.Start || !strings.Contains(a.Text, "longer than") {
			t.Fatalf("got %+v", a)
		}
	}
	p.end(time.Now())
	p = th.begin("q", "")
	if a := p.decide(&throttle.Candidate{}, &throttle.Flight{}); a.Start || !strings.Contains(a.Text, "has not answered an earlier claim") {
		t.Fatalf("got %+v", a)
	}
	p.end(time.Now())
	other := th.begin("other", "yes")
	if a := other.decide(&throttle.Candidate{}, &throttle.Flight{}); !a.Start {
		t.Errorf("another queue: %+v", a)
	}
	other.end(time.Now())
	if len(asked) != 1 {
		t.Errorf("asked %d times", len(asked))
	}
	close(back)
	for th.abandonedCalls("q") > 0 {
		time.Sleep(time.Millisecond) // bounded by the test's own timeout: the goroutine has nothing to wait for any more
	}
	p = th.begin("q", "")
	defer p.end(time.Now())
	if a := p.decide(&throttle.Candidate{}, &throttle.Flight{}); !a.Start {
		t.Errorf("after it came back: %+v", a)
	}
}

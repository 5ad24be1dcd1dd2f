package brokers

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/internal/demo"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// lively is a run whose partners say much twice and much that nobody can read.
func lively(path string) demo.Config {
	c := demo.Headless(2 * time.Second).AtRate(250)
	c.Path, c.Seed, c.Wires, c.For = path, 1, Start, 0
	c.Within, c.Backoff.First = 400*time.Millisecond, 10*time.Millisecond
	c.World = demo.World{MinDelay: 5 * time.Millisecond, MaxDelay: 200 * time.Millisecond, Skew: 2, Twice: 0.3, AtOnce: 0.1, Garbled: 0.2}
	c.Later, c.Withdrawn = 0, 0
	return c
}

// run plays until enough has happened, or a minute is over.
func run(t *testing.T, c demo.Config, enough func(demo.Snapshot) bool) demo.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := sqlite.Open(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r, err := demo.Run(ctx, client, c, func(s demo.Snapshot) {
		if enough(s) {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() {
		t.Errorf("not all is accounted for: %+v\n%s", r, strings.Join(r.Problems, "\n"))
	}
	return r
}

// TestAnswersComeOverBrokers: exports are answered over NATS, parcels over Kafka, and a second run
// with the same files goes on (spec:H1, inv:A1).
func TestAnswersComeOverBrokers(t *testing.T) {
	c := lively(filepath.Join(t.TempDir(), "demo.db"))
	r := run(t, c, func(s demo.Snapshot) bool {
		n, k := s.Partners[0], s.Partners[1]
		return n.Jobs == c.Orders/25 && k.Jobs == c.Orders/10 && s.Enqueued == c.Orders+n.Jobs+k.Jobs &&
			n.Answered >= n.Jobs/2 && k.Answered >= k.Jobs/2 && n.Parked+k.Parked > 0 && n.Duplicate+k.Duplicate > 0
	})
	if len(r.Partners) != 2 {
		t.Fatalf("%+v", r)
	}
	parked, twice := 0, 0
	for i, every := range []int{25, 10} {
		p := r.Partners[i]
		if p.Jobs != c.Orders/every || p.Answered < p.Jobs/2 {
			t.Errorf("%d orders, %+v", c.Orders, p)
		}
		parked, twice = parked+p.Parked, twice+p.Duplicate
	}
	if parked == 0 || twice == 0 || parked != r.Responses.Parked {
		t.Errorf("the partners are too well behaved: %+v", r.Partners)
	}
	c.Orders = 50
	again := run(t, c, func(s demo.Snapshot) bool {
		n, k := s.Partners[0], s.Partners[1]
		return n.Jobs == r.Partners[0].Jobs+50/25 && k.Jobs == r.Partners[1].Jobs+50/10 && s.Enqueued == r.Enqueued+50+50/25+50/10 &&
			n.Answered > r.Partners[0].Answered && k.Answered > r.Partners[1].Answered
	})
	for i, every := range []int{25, 10} {
		if p := again.Partners[i]; p.Jobs != r.Partners[i].Jobs+50/every || p.Answered <= r.Partners[i].Answered {
			t.Errorf("after %+v came %+v", r.Partners[i], p)
		}
	}
}

func TestNoPlaceForFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(filepath.Join(file, "demo")); err == nil || !strings.Contains(err.Error(), "of the demo: ") {
		t.Errorf("%v", err)
	}
}

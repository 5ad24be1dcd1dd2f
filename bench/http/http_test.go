package http

import (
	"os"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/bench"
)

// TestMain makes the test binary the server as well, as the command is.
func TestMain(m *testing.M) {
	if IsChild() {
		Child()
		return
	}
	os.Exit(m.Run())
}

// TestServersTakeJobs enqueues a job at each server of ours, in both ways.
func TestServersTakeJobs(t *testing.T) {
	for name, open := range map[string]bench.Open{
		"ours": served(childServes, false), "ours_each": requests(childServes), "empty": served(childEmpty, false), "empty_each": requests(childEmpty),
	} {
		s, err := open(t.Context())
		if err != nil {
			t.Fatal(name, err)
		}
		if err := s.Enqueue(t.Context(), 1, 1); err != nil {
			t.Error(name, err)
		}
		if err := s.Close(); err != nil {
			t.Error(name, err)
		}
	}
}

package workers

import (
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// TestStateOf has the states of workers. spec:W12
func TestStateOf(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	long, short := now.Add(-SilentAfter(0)-time.Second), now.Add(-time.Hour)
	for _, c := range []struct {
		name string
		w    sojourn.WorkerStatus
		want State
	}{
		{"idle", sojourn.WorkerStatus{SeenAt: short}, Alive},
		{"running", sojourn.WorkerStatus{SeenAt: now, Running: 2}, Alive},
		{"one expired lease of two", sojourn.WorkerStatus{SeenAt: now, Running: 2, Stalled: 1}, Alive},
		{"all leases expired", sojourn.WorkerStatus{SeenAt: short, Running: 2, Stalled: 2}, Gone},
		{"all leases expired, but it waits here", sojourn.WorkerStatus{SeenAt: now, Running: 2, Stalled: 2, Waiting: true}, Alive},
		{"silent", sojourn.WorkerStatus{SeenAt: long}, Gone},
		{"silent with a long lease", sojourn.WorkerStatus{SeenAt: long, Running: 1}, Alive},
		{"draining", sojourn.WorkerStatus{SeenAt: now, Running: 1, Drained: true}, Draining},
		{"drained", sojourn.WorkerStatus{SeenAt: short, Drained: true}, Stopped},
		{"silent for half of a life that is set", sojourn.WorkerStatus{SeenAt: short, Life: 4 * time.Hour / 3}, Alive},
		{"silent for longer than half of a life that is set", sojourn.WorkerStatus{SeenAt: short, Life: time.Hour}, Gone},
		{"drained and silent", sojourn.WorkerStatus{SeenAt: long, Drained: true}, Gone},
	} {
		if got := StateOf(c.w, now); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

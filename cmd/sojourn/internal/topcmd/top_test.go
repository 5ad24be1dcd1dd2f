package topcmd

import (
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// The picture fits the terminal, the oldest come first, and rates are differences.
func TestTopPicture(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	queue := func(name string, done int64, ready time.Time) sojourn.QueueStatus {
		return sojourn.QueueStatus{Name: name, Counts: map[sojourn.State]int64{sojourn.Completed: done}, OldestReady: ready}
	}
	before := picture{Status: sojourn.Status{Now: now.Add(-2 * time.Second)}, Queues: []sojourn.QueueStatus{queue("a", 10, time.Time{}), queue("b", 50, time.Time{})}}
	p := picture{Status: sojourn.Status{Store: "sqlite", Location: "jobs.db", Now: now}, Workers: []sojourn.WorkerStatus{{Worker: "w1", Running: 1, SeenAt: now}},
		Queues: []sojourn.QueueStatus{queue("a", 17, time.Time{}), queue("b", 40, now.Add(-90*time.Second)), queue("c", 4, now.Add(-time.Second))}}
	p.Queues[2].HeldUntil = now.Add(time.Minute)
	text := p.text(&before, 0, 0)
	var rows []string
	for line := range strings.Lines(text) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	for i, want := range map[int]string{2: "b 0 0 0 0 0 0 40 0.0/s 1m30s 0", 3: "c 0 0 0 0 0 0 4 2.0/s 1s 0 on hold for 1m00s", 4: "a 0 0 0 0 0 0 17 3.5/s 0", 7: "w1 alive 1 0 0ms ago"} {
		if rows[i] != want {
			t.Errorf("line %d is %q, want %q", i, rows[i], want)
		}
	}
	small := p.text(&before, 20, 4)
	lines := strings.Split(strings.TrimSuffix(small, "\n"), "\n")
	if len(lines) != 4 || lines[3] != "… 5 lines more" {
		t.Errorf("in 4 lines it is %q", lines)
	}
	for _, l := range lines {
		if len([]rune(l)) > 20 {
			t.Errorf("%q is wider than 20", l)
		}
	}
}

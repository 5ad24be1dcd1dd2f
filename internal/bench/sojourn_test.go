package bench

import (
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// TestSojourn takes jobs through our own system, with both sorts of workers, single and in batches.
func TestSojourn(t *testing.T) {
	for name, load := range map[string]Load{
		"single": {Jobs: 40, WarmUp: 4, Producers: 4, Batch: 1, Within: time.Minute},
		"bulk":   {Jobs: 40, WarmUp: 4, Producers: 2, Batch: 15, Within: time.Minute},
	} {
		for _, bare := range []bool{false, true} {
			c, err := sqlite.Open(":memory:")
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			started := map[int]int{}
			after := 0
			sys := &Sojourn{Client: c, Bare: bare, After: func() error { after++; return nil }, Start: func(n int) {
				mu.Lock()
				defer mu.Unlock()
				started[n]++
			}}
			m, err := Life(t.Context(), sys, load)
			if err != nil || m.Jobs != 40 || m.Cut || m.PerSecond() <= 0 {
				t.Errorf("%s, bare %v: %+v %v", name, bare, m, err)
			}
			for n := range 44 {
				if started[n] != 1 {
					t.Errorf("%s, bare %v: job %d started %d times", name, bare, n, started[n])
				}
			}
			queues, err := c.Store().Queues(t.Context(), Queue)
			if err != nil || len(queues) != 1 || queues[0].Counts[sojourn.Completed] != 44 {
				t.Errorf("%s, bare %v: %+v %v", name, bare, queues, err)
			}
			if err := sys.Close(); err != nil || after != 1 {
				t.Error(err, after)
			}
		}
	}
}

package owner

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// While owners are created and released, no live owner is judged dead.
func TestOwnerRace(t *testing.T) {
	database := filepath.Join(t.TempDir(), "jobs.db")
	stop := make(chan bool)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := EndDead(database, "", Any, func(id string) (bool, error) {
				t.Error("a living owner is called dead:", id)
				return true, nil
			}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var all []*Owner
	for range 300 {
		o, err := New(database, "sj_", 7, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
		if len(all) > 20 {
			if err := all[0].Release(); err != nil {
				t.Error(err)
			}
			all = all[1:]
		}
	}
	close(stop)
	wg.Wait()
	living, err := Living(database, "", Any)
	if err != nil || !slices.Equal(living, slices.Repeat([]int{7}, len(all))) {
		t.Error(living, "living of", len(all), err)
	}
	for _, o := range all {
		if err := o.Release(); err != nil {
			t.Error(err)
		}
	}
}

package diskspace

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestCheckIsRepeated: the bound holds as long as the disk is full, and an unknown disk bounds
// nothing.
func TestCheckIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := int64(10)
		s := &Bound{least: 10, free: func(string) int64 { return free }}
		want := func(low bool) {
			t.Helper()
			if err := s.Check(); (err != nil) != low {
				t.Errorf("with %d bytes: %v", free, err)
			}
		}
		want(false)
		free = 9
		want(false) // as it was a moment ago
		time.Sleep(every)
		want(true)
		free = -1
		time.Sleep(every)
		want(false)
	})
}

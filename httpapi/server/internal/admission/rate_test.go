package admission

import (
	"testing"
	"time"
)

// TestBucket counts by a clock of its own.
func TestBucket(t *testing.T) {
	r := NewRates(10)
	now := time.Unix(1000, 0)
	for i := range 10 {
		if left, wait := r.Take("a", Reading, now); wait != 0 || left != 9-i {
			t.Fatalf("request %d: left %d, wait %v", i, left, wait)
		}
	}
	if _, wait := r.Take("a", Claiming, now); wait != 100*time.Millisecond {
		t.Errorf("the eleventh waits %v", wait)
	}
	if _, wait := r.Take("a", Finishing, now); wait != 0 {
		t.Errorf("a report waits %v", wait)
	}
	if _, wait := r.Take("a", Reading, now.Add(100*time.Millisecond)); wait != 0 {
		t.Errorf("after a tenth it waits %v", wait)
	}
	if _, wait := r.Take("a", Reading, now.Add(100*time.Millisecond)); wait == 0 {
		t.Error("a tenth of a second gives two")
	}
	if left, wait := r.Take("a", Reading, now.Add(time.Hour)); wait != 0 || left != 9 {
		t.Errorf("after an hour: left %d, wait %v", left, wait)
	}
}

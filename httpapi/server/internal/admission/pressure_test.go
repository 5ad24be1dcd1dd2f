package admission

import (
	"testing"
	"time"
)

// TestPressure: slow enqueues lower the limit, fast ones that fill it raise it, and worker reports
// are admitted at any limit.
func TestPressure(t *testing.T) {
	now := time.Unix(1000, 0)
	p := &pressure{limit: firstLimit}
	for _, c := range []Class{Reading, Enqueueing, Claiming} {
		let := int64(0)
		for p.enter(c, 1) {
			let++
		}
		if p.used != firstLimit*c.Share()/100 {
			t.Errorf("class %v fills %d of %d", c, p.used, firstLimit)
		}
		if c != Claiming && !p.enter(c+1, 1) {
			t.Errorf("class %v finds no room above class %v", c+1, c)
		}
	}
	if !p.enter(Finishing, largestCost) {
		t.Error("a report is refused")
	}
	p.used = 0
	late := func(took time.Duration) {
		p.used++
		p.leave(1, took, now)
	}
	late(2 * patientFor)
	late(2 * patientFor) // of the same moment
	if p.limit != firstLimit*3/4 {
		t.Errorf("one late moment leaves a limit of %d", p.limit)
	}
	for range 100 {
		now = now.Add(2 * patientFor)
		late(2 * patientFor)
	}
	if p.limit != leastLimit || !p.enter(Enqueueing, largestCost) {
		t.Errorf("the least limit is %d, and takes a large body: %v", p.limit, p.used > 0)
	}
	p.leave(largestCost, 0, now)
	late(time.Millisecond)
	if p.limit != leastLimit {
		t.Errorf("the limit grows to %d though nothing fills it", p.limit)
	}
	p.used = p.limit
	for range 10 {
		p.leave(8, time.Millisecond, now)
		p.used += 8
	}
	if p.limit != leastLimit+20 || p.used != leastLimit {
		t.Errorf("quick enqueues that fill it give %d, with %d used", p.limit, p.used)
	}
	p.used = 0
	if !p.enter(Reading, 1<<20) {
		t.Error("the only request is refused")
	}
}

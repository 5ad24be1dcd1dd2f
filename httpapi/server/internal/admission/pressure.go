package admission

import (
	"sync"
	"time"
)

// Pressure is measured by the latency of enqueues, because enqueues pile up.
const (
	patientFor   = 250 * time.Millisecond // an enqueue that takes longer, from its last byte on, makes the limit smaller
	firstLimit   = 2048                   // in units, see cost
	leastLimit   = 512
	largestLimit = 64 << 10
	unitBytes    = 1 << 10
	largestCost  = 256 // so that one large body finds room under the smallest limit
)

// pressure adapts the admission limit to the latency of the work, because admitted work delays
// all later requests, worker reports included. The limit falls by a quarter while enqueues are slow
// and grows while they are fast and more than half of it is used. Safe for concurrent use.
type pressure struct {
	mu    sync.Mutex // guards the fields below
	used  int64
	limit int64
	cut   time.Time // when the limit was last made smaller
}

// cost returns the units of a body of that size.
func cost(bytes int64) int64 { return min(1+bytes/unitBytes, largestCost) }

// enter reserves units for a request of a class and reports whether they were free. Worker reports
// are always admitted.
func (p *pressure) enter(c Class, units int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c != Finishing && p.used > 0 && (p.used+units)*100 > p.limit*c.Share() {
		return false
	}
	p.used += units
	return true
}

// full reports whether enter would refuse the smallest request of a class.
func (p *pressure) full(c Class) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c != Finishing && p.used > 0 && (p.used+1)*100 > p.limit*c.Share()
}

// leave releases the units. took is the duration of the work; 0 means unknown.
func (p *pressure) leave(units int64, took time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch full := p.used*2 > p.limit; {
	case took > patientFor && now.Sub(p.cut) > patientFor:
		p.limit, p.cut = max(p.limit*3/4, leastLimit), now
	case took > 0 && took < patientFor/2 && full:
		p.limit = min(p.limit+1+units/8, largestLimit)
	}
	p.used -= units
}

package server

import (
	"net/http"
	"testing"
	"time"
)

// TestPressure: slow enqueues lower the limit, fast ones that fill it raise it, and worker reports
// are admitted at any limit.
func TestPressure(t *testing.T) {
	now := time.Unix(1000, 0)
	p := &pressure{limit: firstLimit}
	for _, c := range []class{reading, enqueueing, claiming} {
		let := int64(0)
		for p.enter(c, 1) {
			let++
		}
		if p.used != firstLimit*shares[c]/100 {
			t.Errorf("class %d fills %d of %d", c, p.used, firstLimit)
		}
		if c != claiming && !p.enter(c+1, 1) {
			t.Errorf("class %d finds no room above class %d", c+1, c)
		}
	}
	if !p.enter(finishing, largestCost) {
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
	if p.limit != leastLimit || !p.enter(enqueueing, largestCost) {
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
	if !p.enter(reading, 1<<20) {
		t.Error("the only request is refused")
	}
}

// TestUnderPressure: reads are refused first, metrics and worker reports are admitted, and the
// refusal gives advice.
func TestUnderPressure(t *testing.T) {
	s := newSite(t, Options{Open: true})
	s.want("enqueue", s.send(http.MethodPost, "/v1/jobs", `{"kind":"k"}`), 201, "")
	p := s.server.admit.pressure
	fill := func(percent int64) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.used = p.limit * percent / 100
	}
	fill(60)
	a := s.send(http.MethodGet, "/v1/status", "")
	s.want("a read at 60 %", a, 503, "overloaded")
	if a.head.Get("Retry-After") == "" {
		t.Errorf("%v", a.head)
	}
	s.want("an enqueue at 60 %", s.send(http.MethodPost, "/v1/jobs", `{"kind":"k"}`), 201, "")
	fill(80)
	s.want("an enqueue at 80 %", s.send(http.MethodPost, "/v1/jobs", `{"kind":"k"}`), 503, "overloaded")
	s.want("figures at 80 %", s.send(http.MethodGet, "/metrics", ""), 200, "")
	lease := s.claimed("k")
	fill(200)
	s.want("a claim at 200 %", s.send(http.MethodPost, "/v1/claim", `{"worker":"w","queues":["default"],"kinds":["k"],"max":1}`), 503, "overloaded")
	s.contains("a report at 200 %", s.finish(lease, `"type":"completed"`), 200, `"applied"`)
	if n := s.stored(); n != 2 {
		t.Errorf("%d jobs are stored", n)
	}
}

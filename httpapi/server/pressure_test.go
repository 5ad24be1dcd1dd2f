package server

import (
	"net/http"
	"testing"

	"github.com/sojourn-queue/sojourn/httpapi/server/internal/admission"
)

// TestUnderPressure: reads are refused first, metrics and worker reports are admitted, and the
// refusal gives advice.
func TestUnderPressure(t *testing.T) {
	s := newSite(t, Options{Open: true})
	s.want("enqueue", s.send(http.MethodPost, "/v1/jobs", `{"kind":"k"}`), 201, "")
	var held []*admission.Slot
	// fill takes a part of the limit, which is 2048 units at the start. One request takes at most
	// 256.
	fill := func(percent int) {
		for _, slot := range held {
			slot.Leave()
		}
		held = held[:0]
		for units := 2048 * percent / 100; units > 0; units -= 256 {
			slot, err := s.server.admit.Enter(admission.Finishing, int64(min(units, 256)-1)<<10)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, slot)
		}
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

package clock

import (
	"testing"
	"time"
)

// TestClockForgetsPredictions: a predicted time that the server has not accepted does not make
// later readings wait for it.
func TestClockForgetsPredictions(t *testing.T) {
	began := time.Unix(1_000_000, 0)
	elapsed := time.Duration(0)
	c := Clock{Source: Source{Wall: func() time.Time { return began.Add(elapsed) }, Elapsed: func() time.Duration { return elapsed }}}
	c.ReadFrom(began.UnixMicro(), c.Monotonic())
	elapsed = time.Second
	if r, ok := c.Predict(); !ok || r.Now != began.Add(time.Second).UnixMicro() {
		t.Fatalf("predicted %+v, %v", r, ok)
	}
	slower := began.Add(500 * time.Millisecond).UnixMicro() // the database's clock is half a second behind
	if now := c.ReadFrom(slower, c.Monotonic()).Now; now != slower {
		t.Errorf("read %d us later than the database says", now-slower)
	}
}

package meter

import (
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/schedule"
)

// TestTickLag: a tick that is due counts from its nominal time, and none while the schedule is
// paused.
func TestTickLag(t *testing.T) {
	made := time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)
	d := schedule.Schedule{Every: time.Hour, UpdatedAt: made}
	if lag := tickLag(&d, made.Add(59*time.Minute)); lag != 0 {
		t.Errorf("before the first tick the lag is %v", lag)
	}
	if lag := tickLag(&d, made.Add(90*time.Minute)); lag != 30*time.Minute {
		t.Errorf("half an hour after the first tick the lag is %v", lag)
	}
	d.LastTick = made.Add(time.Hour)
	if lag := tickLag(&d, made.Add(90*time.Minute)); lag != 0 {
		t.Errorf("after a handled tick the lag is %v", lag)
	}
	d.LastTick, d.Paused = time.Time{}, true
	if lag := tickLag(&d, made.Add(90*time.Minute)); lag != 0 {
		t.Errorf("during a pause the lag is %v", lag)
	}
}

package figures

import (
	"fmt"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/store/statistics"
)

// TestDays: the bars of all days fit into the drawing, the last one is today, and a day with a
// single failed job among many can be seen.
func TestDays(t *testing.T) {
	today := time.Date(2026, 3, 2, 23, 0, 0, 0, time.UTC)
	days := Days([]statistics.Row{{Day: "2026-03-02", Completed: 1_000_000, Failed: 1}, {Day: "2026-02-28", Cancelled: 500_000}}, today, 7)
	if len(days) != 7 || days[6].Row.Day != "2026-03-02" || days[0].Row.Day != "2026-02-24" {
		t.Fatalf("%+v", days)
	}
	for _, d := range days {
		if d.FailedY < 0 || d.X+d.Width > Width || d.EndedY+d.Ended != Height || d.FailedY+d.Failed != d.EndedY {
			t.Errorf("%+v does not fit", d)
		}
	}
	if days[6].Failed != 1 || days[6].Ended < Height-2 || days[4].Ended < Height/3 || days[5].Ended != 0 {
		t.Errorf("%+v", days)
	}
}

func TestReasons(t *testing.T) {
	got := Reasons(statistics.Row{Reasons: map[string]int64{"a": 1, "b": 3, "c": 1, "d": 2}}, 3)
	if fmt.Sprint(got) != "[{b 3} {d 2} {a 1}]" {
		t.Error(got)
	}
}

// Package figures turns statistics into texts and drawings.
package figures

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn/store/statistics"
)

// Reason is a reason of failures with their number.
type Reason struct {
	Name  string
	Count int64
}

// Reasons are the most frequent reasons of a row, up to n.
func Reasons(r statistics.Row, n int) (out []Reason) {
	for _, name := range slices.SortedFunc(maps.Keys(r.Reasons), func(a, b string) int { return cmp.Or(cmp.Compare(r.Reasons[b], r.Reasons[a]), cmp.Compare(a, b)) }) {
		if len(out) < n {
			out = append(out, Reason{name, r.Reasons[name]})
		}
	}
	return out
}

// The size of a drawing of days.
const (
	Width  = 1000
	Height = 80
	gap    = 2
)

// Day is the bar of a day: completed and cancelled jobs below, failed ones on top.
type Day struct {
	Row                                      statistics.Row
	X, Width, EndedY, Ended, FailedY, Failed int
}

// Days lays out the bars of days that follow each other, the last one today. A day without events
// has no row, and a bar of no height.
func Days(rows []statistics.Row, today time.Time, n int) (out []Day) {
	by, most := map[string]statistics.Row{}, int64(1)
	for _, r := range rows {
		by[r.Day], most = r, max(most, r.Completed+r.Cancelled+r.Failed)
	}
	for i := range n {
		name := today.UTC().AddDate(0, 0, i+1-n).Format(time.DateOnly)
		d := Day{Row: by[name], X: i * Width / n, Width: (i+1)*Width/n - i*Width/n - gap}
		d.Row.Day = name
		// What is not nothing is drawn with at least one unit.
		units := func(n int64) int { return int(min(n, 1) + n*(Height-2)/most) }
		d.Ended, d.Failed = units(d.Row.Completed+d.Row.Cancelled), units(d.Row.Failed)
		d.EndedY = Height - d.Ended
		d.FailedY = d.EndedY - d.Failed
		out = append(out, d)
	}
	return out
}

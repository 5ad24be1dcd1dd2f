package bench

import (
	"slices"
	"time"
)

// Sample is a set of durations. One goroutine adds to it.
type Sample struct {
	all    []time.Duration
	sorted bool
}

// Add puts one more into it.
func (s *Sample) Add(d time.Duration) { s.all, s.sorted = append(s.all, d), false }

// Len is their number.
func (s *Sample) Len() int { return len(s.all) }

// Quantile is the least duration that at least the part q of all, 0 to 1, do not exceed; 0 for an
// empty sample.
func (s *Sample) Quantile(q float64) time.Duration {
	if len(s.all) == 0 {
		return 0
	}
	if !s.sorted {
		slices.Sort(s.all)
		s.sorted = true
	}
	rank := int(q * float64(len(s.all)))
	if float64(rank) < q*float64(len(s.all)) {
		rank++
	}
	return s.all[min(max(rank, 1), len(s.all))-1]
}

// Merge makes one sample of several.
func Merge(parts ...Sample) Sample {
	var whole Sample
	for _, p := range parts {
		whole.all = append(whole.all, p.all...)
	}
	return whole
}

// Milliseconds is d in ms with three decimals.
func Milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

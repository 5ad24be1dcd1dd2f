package claim

import (
	"slices"
	"testing"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// TestChoose is the order over several queues: spec:O8 strictly in order, spec:O9 in rounds,
// shares, and a job that does not fit is skipped (spec:W9).
func TestChoose(t *testing.T) {
	line := func(name string, weights ...int64) (cs []jobrow.Candidate) {
		for i, w := range weights {
			cs = append(cs, jobrow.Candidate{ID: int64(name[0])*100 + int64(i), Weight: w})
		}
		return cs
	}
	letters := func(cs []jobrow.Candidate) (s string) {
		for _, c := range cs {
			s += string(rune(c.ID / 100))
		}
		return s
	}
	for _, c := range []struct {
		name  string
		lines [][]jobrow.Candidate
		r     driver.ClaimRequest
		want  string
	}{
		{"ordered", [][]jobrow.Candidate{line("C", 1, 1, 1), line("B", 1, 1), line("A", 1, 1, 1, 1, 1)},
			driver.ClaimRequest{Queues: []string{"C", "B", "A"}, Max: 100, Capacity: 100}, "CCCBBAAAAA"},
		{"round robin", [][]jobrow.Candidate{line("C", 1, 1, 1), line("B", 1, 1), line("A", 1, 1, 1, 1, 1)},
			driver.ClaimRequest{Queues: []string{"C", "B", "A"}, Max: 100, Capacity: 100, Share: map[string]int{"A": 1}}, "CBACBACAAA"},
		{"weighted", [][]jobrow.Candidate{line("A", 1, 1, 1, 1, 1, 1), line("B", 1, 1, 1, 1)},
			driver.ClaimRequest{Queues: []string{"A", "B"}, Max: 8, Capacity: 100, Share: map[string]int{"A": 3}}, "AAABAAAB"},
		{"max", [][]jobrow.Candidate{line("A", 1, 1, 1)}, driver.ClaimRequest{Queues: []string{"A"}, Max: 2, Capacity: 100}, "AA"},
		{"passed over", [][]jobrow.Candidate{line("A", 5, 1), line("B", 2)}, driver.ClaimRequest{Queues: []string{"A", "B"}, Max: 9, Capacity: 3}, "AB"},
		{"weight 0 always fits", [][]jobrow.Candidate{line("A", 3, 0, 1)}, driver.ClaimRequest{Queues: []string{"A"}, Max: 9, Capacity: 3}, "AA"},
		{"kept room", [][]jobrow.Candidate{line("A", 1, 5, 1), line("B", 2)}, driver.ClaimRequest{Queues: []string{"A", "B"}, Max: 9, Capacity: 3, Reserve: 1}, "A"},
		{"kept room in turn", [][]jobrow.Candidate{line("A", 1, 1, 1), line("B", 4, 1)},
			driver.ClaimRequest{Queues: []string{"A", "B"}, Max: 9, Capacity: 4, Reserve: 1, Share: map[string]int{"A": 2, "B": 1}}, "AA"},
		{"behind what fills the room", [][]jobrow.Candidate{line("A", 1, 1, 3)}, driver.ClaimRequest{Queues: []string{"A"}, Max: 2, Capacity: 3, Reserve: 1}, "AA"},
		{"nothing", [][]jobrow.Candidate{nil}, driver.ClaimRequest{Queues: []string{"A"}, Max: 9, Capacity: 3}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := choose(c.lines, c.r, func(r driver.ClaimRequest, _ int64) (bool, error) { return r.Reserve > 0, nil })
			if err != nil || letters(got) != c.want {
				t.Errorf("got %s, %v, want %s", letters(got), err, c.want)
			}
		})
	}
	if got := slices.MinFunc([]jobrow.Candidate{{ID: 2, R1: 1, R2: 5}, {ID: 1, R1: 1, R2: 6}, {ID: 3, R1: 1, R2: 5}}, jobrow.CompareCandidates); got.ID != 2 {
		t.Error("first in order:", got)
	}
}

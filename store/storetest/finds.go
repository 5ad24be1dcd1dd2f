package storetest

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
)

func (s *environment) find(f sojourn.Filter) []sojourn.ID {
	s.Helper()
	jobs, err := s.store.Find(s.ctx, f)
	s.must(err, "Find")
	var ids []sojourn.ID
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func (s *environment) finds(f sojourn.Filter, want ...sojourn.ID) {
	s.Helper()
	if got := s.find(f); !slices.Equal(got, want) {
		s.Fatalf("Find(%s) gave %v, want %v", text(f), got, want)
	}
}

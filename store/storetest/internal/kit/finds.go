package kit

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
)

func (s *environment) Find(f sojourn.Filter) []sojourn.ID {
	s.Helper()
	jobs, err := s.Store.Find(s.Ctx, f)
	s.Must(err, "Find")
	var ids []sojourn.ID
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func (s *environment) Finds(f sojourn.Filter, want ...sojourn.ID) {
	s.Helper()
	if got := s.Find(f); !slices.Equal(got, want) {
		s.Fatalf("Find(%s) gave %v, want %v", Text(f), got, want)
	}
}

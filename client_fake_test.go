package sojourn

import (
	"context"
	"slices"
	"sync"
)

// fakeStore returns configured results and records its calls. Methods that a test does not need
// panic with a nil Store.
type fakeStore struct {
	Store
	mu        sync.Mutex
	nextID    ID
	blocks    []int // sizes of the blocks leased
	idsErr    error
	enqueues  [][]Job
	onEnqueue func(call int, jobs []Job, partial bool) ([]Enqueued, error)
	responds  [][]Response
	onRespond func(call int, rs []Response) ([]Responded, error)
	finds     []Filter
	onFind    func(call int, f Filter) ([]Job, error)
	edits     []Edit
	onEdit    func(f Filter, e Edit) (Page[Edited], error)
	closed    bool
}

func (s *fakeStore) IDs(_ context.Context, n int) (ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idsErr != nil {
		return 0, s.idsErr
	}
	first := s.nextID + 1
	s.nextID += ID(n)
	s.blocks = append(s.blocks, n)
	return first, nil
}

func (s *fakeStore) Enqueue(_ context.Context, jobs []Job, partial bool) ([]Enqueued, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enqueues = append(s.enqueues, slices.Clone(jobs))
	if s.onEnqueue != nil {
		return s.onEnqueue(len(s.enqueues), jobs, partial)
	}
	return stored(jobs), nil
}

func stored(jobs []Job) []Enqueued {
	out := make([]Enqueued, len(jobs))
	for i, j := range jobs {
		out[i] = Enqueued{ID: j.ID, State: Ready}
	}
	return out
}

func (s *fakeStore) Respond(_ context.Context, rs []Response) ([]Responded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.responds = append(s.responds, slices.Clone(rs))
	if s.onRespond != nil {
		return s.onRespond(len(s.responds), rs)
	}
	return make([]Responded, len(rs)), nil
}

func (s *fakeStore) Find(_ context.Context, f Filter) ([]Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finds = append(s.finds, f)
	return s.onFind(len(s.finds), f)
}

func (s *fakeStore) Edit(_ context.Context, f Filter, e Edit) (Page[Edited], error) {
	s.edits = append(s.edits, e)
	return s.onEdit(f, e)
}

func (s *fakeStore) Close() error { s.closed = true; return nil }

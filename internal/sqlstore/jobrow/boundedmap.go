package jobrow

import "sync"

// MapSize bounds a memo. It has an entry for each kind and worker of a program; a program with a
// policy of its own for each job must not fill the memory.
const MaxMapSize = 4096

// BoundedMap caches values that are cheap to compute again. Safe for concurrent use.
type BoundedMap[K comparable, V any] struct {
	mu    sync.Mutex
	known map[K]V
}

func (m *BoundedMap[K, V]) Get(k K) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.known[k]
	return v, ok
}

func (m *BoundedMap[K, V]) Put(k K, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= MaxMapSize {
		m.known = map[K]V{}
	}
	m.known[k] = v
}

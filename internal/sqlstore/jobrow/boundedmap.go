package jobrow

import "sync"

// MaxMapSize bounds the entries of a BoundedMap. It is more than the kinds and workers of a
// program, and keeps a program that has another policy for each job from filling the memory.
const MaxMapSize = 4096

// BoundedMap caches values that are cheap to compute again: a full one is emptied. The
// zero value is an empty map. Safe for concurrent use.
type BoundedMap[K comparable, V any] struct {
	mu    sync.Mutex
	known map[K]V
}

// Get returns the cached value of a key, and whether there is one.
func (m *BoundedMap[K, V]) Get(k K) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.known[k]
	return v, ok
}

// Delete removes a key.
func (m *BoundedMap[K, V]) Delete(k K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, k)
}

// Put caches the value of a key.
func (m *BoundedMap[K, V]) Put(k K, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= MaxMapSize {
		m.known = map[K]V{}
	}
	m.known[k] = v
}

package sqlstore

import "sync"

// memoSize bounds a memo. It has an entry for each kind and worker of a program; a program with a
// policy of its own for each job must not fill the memory.
const memoSize = 4096

// memo caches values that are cheap to compute again. Safe for concurrent use.
type memo[K comparable, V any] struct {
	mu    sync.Mutex
	known map[K]V
}

func (m *memo[K, V]) get(k K) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.known[k]
	return v, ok
}

func (m *memo[K, V]) put(k K, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= memoSize {
		m.known = map[K]V{}
	}
	m.known[k] = v
}

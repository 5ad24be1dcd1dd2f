package ui

import (
	"sync"
	"time"
)

// Limits of caches.
const (
	countsFresh  = 900 * time.Millisecond // age of the counts that a page may show
	countsFactor = 10                     // and this many times as long as reading them took: counting costs time in proportion to the jobs
	maxCached    = 100                    // keys of one person
)

// cache has the counts that a person may see, by a key. Many pages that are open share one reading.
// Safe for concurrent use.
type cache[T any] struct {
	mu    sync.Mutex // guards byKey
	byKey map[string]*cached[T]
}

// cached is one reading.
type cached[T any] struct {
	mu    sync.Mutex // guards the fields below, and keeps pages from counting at the same time
	at    time.Time
	took  time.Duration
	value T
}

// drop makes the next pages read again.
func (c *cache[T]) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byKey = nil
}

// get returns the value of a key, and how old it is.
func (c *cache[T]) get(key string, read func() (T, error)) (value T, age time.Duration, err error) {
	c.mu.Lock()
	one := c.byKey[key]
	if one == nil {
		if one = new(cached[T]); c.byKey == nil || len(c.byKey) >= maxCached {
			c.byKey = map[string]*cached[T]{}
		}
		c.byKey[key] = one
	}
	c.mu.Unlock()
	one.mu.Lock()
	defer one.mu.Unlock()
	began := time.Now()
	if age := began.Sub(one.at); age < max(countsFresh, countsFactor*one.took) {
		return one.value, age, nil
	}
	if value, err = read(); err == nil {
		one.value, one.at, one.took = value, began, time.Since(began)
	}
	return value, 0, err
}

// Package cachetest makes cached values of a store wrong on purpose, so that tests see their
// validators refuse them.
package cachetest

import (
	"fmt"
	"hash/fnv"
	"sync"
	"testing"
)

// one value in spoilOneIn is spoiled.
const spoilOneIn = 3

// Poison counts the spoiled values of several stores. Safe for concurrent use.
type Poison struct {
	mu      sync.Mutex
	spoiled map[string]int
}

// Spoils is a txn.Config.Spoils. The same seed spoils the same values of a store whose calls come
// one after the other.
func (p *Poison) Spoils(seed string) func(what string) bool {
	n := 0
	return func(what string) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		n++
		h := fnv.New64a()
		fmt.Fprint(h, seed, n)
		if h.Sum64()>>32%spoilOneIn != 0 {
			return false
		}
		if p.spoiled == nil {
			p.spoiled = map[string]int{}
		}
		p.spoiled[what]++
		return true
	}
}

// Expect fails the test unless each of the kinds of values was spoiled.
func (p *Poison) Expect(t testing.TB, whats ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Log("spoiled:", p.spoiled)
	for _, what := range whats {
		if p.spoiled[what] == 0 {
			t.Errorf("no test used a cached value that was spoiled: %s", what)
		}
	}
}

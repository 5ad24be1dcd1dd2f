// Package cachetest makes cached values of a store wrong on purpose, so that tests see their
// validators refuse them.
package cachetest

import (
	"flag"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"testing"
)

const spoilOneIn = 3 // values, one is spoiled

// Poison counts the spoiled values of several stores. Safe for concurrent use.
type Poison struct {
	mu      sync.Mutex
	spoiled map[string]int
}

// Spoils is a txn.Config.Spoils. It spoils the first value of a kind, and then one in spoilOneIn.
// The same seed spoils the same values of a store whose calls come one after the other.
func (p *Poison) Spoils(seed string) func(what string) bool {
	n := 0
	return func(what string) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		n++
		h := fnv.New64a()
		fmt.Fprint(h, seed, n)
		if p.spoiled == nil {
			p.spoiled = map[string]int{}
		}
		if p.spoiled[what] > 0 && h.Sum64()>>32%spoilOneIn != 0 {
			return false
		}
		p.spoiled[what]++
		return true
	}
}

// Expect fails the test unless each of the kinds of values was spoiled. It expects nothing if only
// some cases of a test run.
func (p *Poison) Expect(t testing.TB, whats ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Log("spoiled:", p.spoiled)
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return
	}
	for _, what := range whats {
		if p.spoiled[what] == 0 {
			t.Errorf("no test used a cached value that was spoiled: %s", what)
		}
	}
}

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
)

// overPostgres reports whether the tests of a mutant need PostgreSQL, which -short would skip.
func (m mutant) overPostgres() bool { return strings.Contains(m.test, "./store/postgres") }

// draw returns n mutants at random, or all for 0, and prints the seed that draws the same again. It
// leaves out those over PostgreSQL unless CI is true: where there is no server, their tests are
// skipped and notice nothing.
func draw(all []mutant, n int, seed uint64) (drawn []mutant) {
	if n <= 0 {
		return all
	}
	if seed == 0 {
		seed = rand.Uint64N(1_000_000) + 1
	}
	fmt.Printf("%d mutants, seed %d\n", n, seed)
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(all)) {
		if len(drawn) < n && (!all[i].overPostgres() || os.Getenv("CI") == "true") {
			drawn = append(drawn, all[i])
		}
	}
	return drawn
}

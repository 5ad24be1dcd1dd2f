// Package callcost limits what one call of a store may cost its database. [Calls] is the law for
// both databases; the tests of each store measure their calls and compare.
package callcost

import (
	"context"
	"fmt"

	"github.com/sojourn-queue/sojourn/driver"
)

// Cost is what a call has cost. A database counts the fields that it has; the others are 0.
type Cost struct {
	Queries  int // of SQLite: statements run with Query
	Bulks    int // of SQLite: statements run with Bulk, however many rows
	Execs    int // of SQLite: statements run with Exec
	Syncs    int // of SQLite: fsyncs of the write-ahead log
	Messages int // of PostgreSQL: round trips
}

// The calls of a life, in their order.
const (
	Enqueue        = "Enqueue with key"
	Claim          = "Claim"
	FinishAwait    = "Finish (await)"
	Respond        = "Respond"
	ClaimResume    = "Claim (resume)"
	Finish         = "Finish (completed)"
	EnqueueWaiting = "Enqueue with a waiting claim"
)

// Call is one row of the law.
type Call struct {
	Name               string
	SQLite, PostgreSQL Cost
}

// Calls is the law: what each call may cost if it runs alone with warm caches. Numbers fall and do
// not rise, see docs/internals/engine.md#rules-for-changes. On SQLite one bulk of each is that of
// the maintained counts, which came later (docs/decisions/062), and one exec of all but the resume
// that of the statistics (docs/decisions/066).
var Calls = []Call{
	{Enqueue, Cost{Queries: 3, Bulks: 4, Execs: 1, Syncs: 1}, Cost{Messages: 1}},
	{Claim, Cost{Queries: 7, Bulks: 2, Execs: 2, Syncs: 1}, Cost{Messages: 2}},
	{FinishAwait, Cost{Queries: 2, Bulks: 3, Execs: 1, Syncs: 1}, Cost{Messages: 3}},
	{Respond, Cost{Queries: 5, Bulks: 5, Execs: 1, Syncs: 1}, Cost{Messages: 2}},
	{ClaimResume, Cost{Queries: 8, Bulks: 2, Execs: 1, Syncs: 1}, Cost{Messages: 4}},
	{Finish, Cost{Queries: 1, Bulks: 4, Execs: 3, Syncs: 1}, Cost{Messages: 1}},
	{EnqueueWaiting, Cost{Queries: 7, Bulks: 3, Execs: 2, Syncs: 1}, Cost{Messages: 2}},
}

const (
	warmUp   = 5  // lives before the first that counts
	measured = 10 // lives that count
)

// Measure runs several lives in s and returns what each call has cost at least. total returns the
// sum of all costs so far; it is called from one goroutine.
//
// Caches, prepared statements and learned texts are warm when it begins to count. Other work in the
// store or on the server can make a call dearer by chance, but not all of them.
func Measure(ctx context.Context, s driver.Store, total func() Cost) (map[string]Cost, error) {
	least := map[string]Cost{}
	for life := range warmUp + measured {
		err := Life(ctx, s, life+1, func(call string, run func() error) error {
			before := total()
			err := run()
			cost := total().minus(before)
			if seen, ok := least[call]; ok {
				cost = cost.least(seen)
			}
			if life >= warmUp {
				least[call] = cost
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("life %d: %w", life+1, err)
		}
	}
	return least, nil
}

// Breaches compares measured costs with the law of one database. A cost below the law is a breach
// too, so that the law follows each improvement.
func Breaches(cost map[string]Cost, most func(Call) Cost) (found []string) {
	for _, c := range Calls {
		limit := most(c)
		got, ok := cost[c.Name]
		if !ok {
			found = append(found, c.Name+": not measured")
			continue
		}
		for _, f := range []struct {
			what      string
			got, most int
		}{{"queries", got.Queries, limit.Queries}, {"bulks", got.Bulks, limit.Bulks}, {"execs", got.Execs, limit.Execs}, {"syncs", got.Syncs, limit.Syncs},
			{"messages", got.Messages, limit.Messages}} {
			if f.got > f.most {
				found = append(found, fmt.Sprintf("%s: %d %s, at most %d", c.Name, f.got, f.what, f.most))
			}
			if f.got < f.most {
				found = append(found, fmt.Sprintf("%s: %d %s instead of %d: lower the number in callcost.Calls", c.Name, f.got, f.what, f.most))
			}
		}
	}
	return found
}

func (c Cost) minus(d Cost) Cost {
	return Cost{c.Queries - d.Queries, c.Bulks - d.Bulks, c.Execs - d.Execs, c.Syncs - d.Syncs, c.Messages - d.Messages}
}

func (c Cost) least(d Cost) Cost {
	return Cost{min(c.Queries, d.Queries), min(c.Bulks, d.Bulks), min(c.Execs, d.Execs), min(c.Syncs, d.Syncs), min(c.Messages, d.Messages)}
}

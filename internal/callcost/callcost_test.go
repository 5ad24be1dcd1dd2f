package callcost

import (
	"fmt"
	"slices"
	"testing"
)

// TestBreachesArePlanted: a cost above or below the law, and a call that was not measured, are
// reported.
func TestBreachesArePlanted(t *testing.T) {
	sqlite := func(c Call) Cost { return c.SQLite }
	cost := map[string]Cost{}
	for _, c := range Calls {
		cost[c.Name] = c.SQLite
	}
	if found := Breaches(cost, sqlite); len(found) > 0 {
		t.Error(found)
	}
	c := cost[Claim]
	c.Queries++
	c.Syncs--
	c.Messages++
	cost[Claim] = c
	delete(cost, Respond)
	want := []string{
		fmt.Sprintf("Claim: %d queries, at most %d", c.Queries, c.Queries-1),
		fmt.Sprintf("Claim: %d syncs instead of %d: lower the number in callcost.Calls", c.Syncs, c.Syncs+1),
		"Claim: 1 messages, at most 0",
		"Respond: not measured",
	}
	if found := Breaches(cost, sqlite); !slices.Equal(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
}

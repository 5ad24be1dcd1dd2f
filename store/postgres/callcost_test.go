package postgres

import (
	"testing"

	"github.com/sojourn-queue/sojourn/internal/callcost"
)

// TestCallCost: no call sends more messages than callcost.Calls allows.
func TestCallCost(t *testing.T) {
	s, c, _ := openCounted(t)
	cost, err := callcost.Measure(t.Context(), s, func() callcost.Cost { return callcost.Cost{Messages: int(c.messages.Load())} })
	if err != nil {
		t.Fatal(err)
	}
	for _, breach := range callcost.Breaches(cost, func(c callcost.Call) callcost.Cost { return c.PostgreSQL }) {
		t.Error(breach)
	}
}

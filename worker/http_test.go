package worker_test

import (
	"net/http/httptest"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi"
	"github.com/sojourn-queue/sojourn/httpapi/server"
)

// overHTTP puts a server between the workers of a test and the store.
var overHTTP bool

func dialled(t *testing.T, behind *sojourn.Client) *sojourn.Client {
	t.Helper()
	h, err := server.New(t.Context(), behind.Store(), server.Options{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	c, err := httpapi.Dial(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		h.Drain()
		s.Close()
	})
	return c
}

// TestOverHTTP runs the tests of the worker on a real store once more, with a server in between. The one that counts goroutines would count
// idle connections.
func TestOverHTTP(t *testing.T) {
	overHTTP = true
	defer func() { overHTTP = false }()
	for name, test := range map[string]func(*testing.T){
		"TestAwaitAndRespond":           TestAwaitAndRespond,
		"TestCancelReachesTheHandler":   TestCancelReachesTheHandler,
		"TestDrainBurnsNoAttempt":       TestDrainBurnsNoAttempt,
		"TestFailures":                  TestFailures,
		"TestRetryPolicyDecidesErrored": TestRetryPolicyDecidesErrored,
		"TestHistoryHasTheStoresTimes":  TestHistoryHasTheStoresTimes,
		"TestQueueOrders":               TestQueueOrders,
		"TestWeightsOnTheStore":         TestWeightsOnTheStore,
		"TestIdleWorkerStartsPromptly":  TestIdleWorkerStartsPromptly,
	} {
		t.Run(name, test)
	}
}

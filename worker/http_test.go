package worker_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi"
	"github.com/sojourn-queue/sojourn/httpapi/server"
	"github.com/sojourn-queue/sojourn/worker"
)

// overHTTP puts a server between the workers of a test and the store.
var overHTTP bool

func dialled(t *testing.T, behind *sojourn.Client) *sojourn.Client {
	t.Helper()
	return through(t, behind, func(server string) string { return server })
}

// through dials a server over the store by the way that is made to it.
func through(t *testing.T, behind *sojourn.Client, way func(server string) string) *sojourn.Client {
	t.Helper()
	h, err := server.New(t.Context(), driver.Of(behind), server.Options{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := httpapi.Dial(way(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		h.Drain()
	})
	return c
}

// TestOverHTTP runs the tests of the worker on a real store once more, with a server in between.
// The one that counts goroutines would count idle connections.
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

// rules:A3: behind a proxy that does not tell the server that its caller has gone, a claim that a
// worker has broken off takes no job any more that the worker hands back.
func TestDrainEndsClaimsBehindProxies(t *testing.T) {
	behind := open(t)
	c := through(t, behind, func(server string) string {
		target, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		forward := httputil.NewSingleHostReverseProxy(target)
		deaf, over := context.WithCancel(context.Background())
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { forward.ServeHTTP(w, r.WithContext(deaf)) }))
		t.Cleanup(func() { over(); proxy.Close() })
		return proxy.URL
	})
	for range 3 {
		w := worker.New(c, worker.Options{Concurrency: 2, Grace: -1})
		worker.Handle(w, number, func(ctx context.Context, _ *sojourn.Job, _ int) error { <-ctx.Done(); return ctx.Err() })
		stop := start(t, w)
		job := number.New(7)
		enqueue(t, behind, job)
		await(t, behind, job.ID, sojourn.Running)
		waits(t, behind, w)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if j, err := behind.Get(t.Context(), job.ID); err != nil || j.State != sojourn.Ready {
			t.Fatalf("after the drain the job is %s, %v", j.State, err)
		}
		if err := behind.Cancel(t.Context(), job.ID, "over"); err != nil {
			t.Fatal(err)
		}
	}
}

// waits returns when a claim of w is blocked in the store.
func waits(t *testing.T, c *sojourn.Client, w *worker.Worker) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		shown, err := c.Store().Workers(t.Context(), "", 0, w.ID())
		if err != nil {
			t.Fatal(err)
		}
		if len(shown) == 1 && shown[0].Waiting {
			return
		}
	}
	t.Fatal("no claim waits")
}

package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi"
	"github.com/sojourn-queue/sojourn/httpapi/server"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// TestLostAnswerIsNoDuplicate: the server stores the job, its answer is lost, and the client sends
// the call again.
func TestLostAnswerIsNoDuplicate(t *testing.T) {
	behind, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer behind.Close()
	h, err := server.New(t.Context(), driver.Of(behind), server.Options{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Drain()
	var posts atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/jobs") && posts.Add(1) == 1 {
			h.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler) // closes the connection
		}
		h.ServeHTTP(w, r)
	}))
	defer s.Close()
	c, err := httpapi.Dial(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	j := sojourn.NewJob("k", []byte("1"))
	e, err := c.Enqueue(context.Background(), j)
	if err != nil || e.Duplicate || e.ID != j.ID || posts.Load() != 2 {
		t.Errorf("after %d requests the answer is %+v, %v; the job is %d", posts.Load(), e, err, j.ID)
	}
}

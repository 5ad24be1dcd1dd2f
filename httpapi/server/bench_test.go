package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// nowhere is a store that acknowledges jobs which it does not store.
type nowhere struct {
	driver.Store
	access.Keeper
	ids atomic.Int64
}

func (n *nowhere) IDs(_ context.Context, count int) (sojourn.ID, error) {
	return sojourn.ID(n.ids.Add(int64(count)) - int64(count) + 1), nil
}

func (n *nowhere) Enqueue(_ context.Context, jobs []sojourn.Job, _ bool) ([]sojourn.Enqueued, error) {
	out := make([]sojourn.Enqueued, len(jobs))
	for i := range jobs {
		out[i] = sojourn.Enqueued{ID: jobs[i].ID, State: sojourn.Ready}
	}
	return out, nil
}

// BenchmarkEnqueue measures the cost of a request without the store: the token, admission,
// decoding, validation and the response.
func BenchmarkEnqueue(b *testing.B) {
	c, err := sqlite.Open(":memory:")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	keeper := c.Store().(access.Keeper)
	token, bearer := NewToken("bench", time.Hour, []access.Grant{{Verbs: []access.Verb{access.VerbEnqueue}}})
	if err := keeper.SetAccessToken(b.Context(), token); err != nil {
		b.Fatal(err)
	}
	s, err := New(b.Context(), &nowhere{Store: driver.Of(c), Keeper: keeper}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	job := `{"kind":"bench","queue":"bench","args":{"$base64":"` + base64.StdEncoding.EncodeToString(make([]byte, 100)) + `"},"content_type":"application/octet-stream"}`
	for _, jobs := range []int{1, 1000} {
		b.Run(fmt.Sprint(jobs), func(b *testing.B) {
			body := []byte(`{"jobs":[` + strings.Repeat(job+",", jobs-1) + job + `]}`)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "/v1/jobs/batch", bytes.NewReader(body))
				r.Header.Set("Content-Type", jsonType)
				r.Header.Set("Authorization", "Bearer "+bearer)
				w := httptest.NewRecorder()
				if s.ServeHTTP(w, r); w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}

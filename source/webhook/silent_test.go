package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/slowclients"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// TestSilentSenders: senders whose messages never arrive keep no other sender out. With
// SOJOURN_SILENT_LONG it takes 30 s, and no message may take longer than 1 s.
func TestSilentSenders(t *testing.T) {
	paths := []string{"/respond/charge/a", "/webhook/bank", "/respond/sj_link", "/nothing"}
	for name, clients := range map[string][]slowclients.Client{
		"headers": slowclients.Headers(),
		"bodies":  slowclients.Bodies(paths),
		"known":   slowclients.Bodies(paths[:1], "Authorization: Bearer "+secret),
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/tls=%v", name, secure), func(t *testing.T) { silent(t, clients, secure) })
		}
	}
}

func silent(t *testing.T, clients []slowclients.Client, secure bool) {
	s := newStage(t, must[*sojourn.Client](t)(sqlite.Open(":memory:")))
	s.open(func(o *Options) { o.MaxBytes, o.MaxConns = 300_000, 160 })
	h := httptest.NewUnstartedServer(nil)
	h.Config = Server(s.handler)
	var config *tls.Config
	if secure {
		h.EnableHTTP2 = true
		h.StartTLS()
		config = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}
	} else {
		h.Start()
	}
	defer h.Close()
	turns := make(slowclients.Turns)
	pause := turns.Pause
	if os.Getenv("SOJOURN_SILENT_LONG") != "" {
		pause = slowclients.Second
	}
	defer slowclients.Start(h.Listener.Addr().String(), config, 200, clients, pause)()
	end, long := time.Now(), os.Getenv("SOJOURN_SILENT_LONG") != ""
	if long {
		end = end.Add(30 * time.Second)
	}
	var all sync.WaitGroup
	var slowest atomic.Int64
	for i := range 8 {
		transport := h.Client().Transport.(*http.Transport).Clone()
		transport.DisableKeepAlives = i%2 == 0
		defer transport.CloseIdleConnections()
		all.Go(func() {
			for n := 0; n < 30 || time.Now().Before(end); n++ {
				began := time.Now()
				if err := message(transport, fmt.Sprintf("%s/respond/charge/%d-%d", h.URL, i, n)); err != nil {
					t.Errorf("sender %d, message %d: %v", i, n, err)
					return
				}
				if took := int64(time.Since(began)); took > slowest.Load() {
					slowest.Store(took)
				}
				if i%2 == 0 {
					turns.Give()
				}
				if long {
					time.Sleep(5 * time.Millisecond) // bounds the number of requests in 30 s
				}
			}
		})
	}
	all.Wait()
	t.Logf("the slowest message took %v", time.Duration(slowest.Load()))
	if long && time.Duration(slowest.Load()) > time.Second {
		t.Errorf("a message took %v", time.Duration(slowest.Load()))
	}
}

func message(transport http.RoundTripper, url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"paid":true}`))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	got, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	if err == nil && got.StatusCode >= 300 {
		err = fmt.Errorf("answered %d %s", got.StatusCode, b)
	}
	return err
}

package server

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

	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/slowclients"
)

// silentLong is the environment variable that makes these tests run for 30 s and hold every honest
// request against 1 s.
const silentLong = "SOJOURN_SILENT_LONG"

const (
	silentConns = 200
	honest      = 8
	silentMax   = 160 // connections that the server holds: fewer than there are silent ones, and more without a token than reconnect at a time
)

// TestSilentConnections: connections that never finish a request do not lock other clients out,
// with or without a token, over TLS, or on a path that reads no body.
func TestSilentConnections(t *testing.T) {
	paths := []string{"/v1/jobs", "/livez", "/docs", "/metrics", "/nothing/here", "/v1/jobs/raw?kind=k"}
	for name, clients := range map[string]func(token string) []slowclients.Client{
		"headers": func(string) []slowclients.Client { return slowclients.Headers() },
		"bodies":  func(string) []slowclients.Client { return slowclients.Bodies(paths) },
		"mixed": func(token string) []slowclients.Client { // every fifth has a token
			return append(append(slowclients.Headers(), slowclients.Bodies(paths)...), slowclients.Bodies(paths[:2], token)...)
		},
	} {
		t.Run(name+"/http", func(t *testing.T) { silent(t, false, clients) })
		t.Run(name+"/https", func(t *testing.T) { silent(t, true, clients) })
	}
}

func silent(t *testing.T, secure bool, clients func(token string) []slowclients.Client) {
	s := newSite(t, Options{})
	token := s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbEnqueue, access.VerbRead}})
	h := httptest.NewUnstartedServer(nil)
	h.Config = s.server.HTTP(silentMax)
	if secure {
		h.EnableHTTP2 = true
		h.StartTLS()
	} else {
		h.Start()
	}
	defer h.Close()
	var config *tls.Config
	if secure {
		config = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}
	}
	turns := make(slowclients.Turns)
	pause := turns.Pause
	if os.Getenv(silentLong) != "" {
		pause = slowclients.Second
	}
	stop := slowclients.Start(h.Listener.Addr().String(), config, silentConns, clients(token), pause)
	defer stop()
	beside(t, h, token, turns)
}

// beside sends the requests of honest clients, each of which must succeed.
func beside(t *testing.T, h *httptest.Server, token string, turns slowclients.Turns) {
	least, end := int64(30), time.Now()
	long := os.Getenv(silentLong) != ""
	if long {
		end = end.Add(30 * time.Second)
	}
	name, value, _ := strings.Cut(token, ": ")
	var all sync.WaitGroup
	var slowest atomic.Int64
	for i := range honest {
		transport := h.Client().Transport.(*http.Transport).Clone()
		transport.DisableKeepAlives = i%2 == 0 // half of them open a connection for each request
		defer transport.CloseIdleConnections()
		all.Go(func() {
			for n := int64(0); n < least || time.Now().Before(end); n++ {
				began := time.Now()
				if err := enqueueOver(transport, h.URL, name, value); err != nil {
					t.Errorf("client %d, request %d, after %v: %v", i, n, time.Since(began), err)
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
	t.Logf("the slowest request took %v", time.Duration(slowest.Load()))
	if long && time.Duration(slowest.Load()) > time.Second {
		t.Errorf("a request took %v", time.Duration(slowest.Load()))
	}
}

func enqueueOver(transport http.RoundTripper, url, name, value string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/jobs", strings.NewReader(`{"kind":"k"}`))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", jsonType)
	r.Header.Set(name, value)
	got, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	if err == nil && got.StatusCode != http.StatusCreated {
		err = fmt.Errorf("answered %d %s", got.StatusCode, b)
	}
	return err
}

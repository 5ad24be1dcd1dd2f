package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// What goes over the wire.
type (
	request struct {
		Key         string `json:"key"`
		Idempotency string `json:"idempotency"`
	}
	answer struct {
		Key      string `json:"key"`
		Approved bool   `json:"approved"`
	}
)

// gateway is the other side. It answers a request with 202 at once and calls the webhook a moment
// later, twice, as real ones do.
type gateway struct {
	url, hook string
	delivered sync.WaitGroup
}

func newGateway(hook string) (g *gateway, err error) {
	g = &gateway{hook: hook}
	g.url, err = serve(g.accept)
	return g, err
}

// ask is the call to it.
func (g *gateway) ask(ctx context.Context, key, idempotency string) error {
	return post(ctx, g.url, "", request{key, idempotency})
}

func (g *gateway) accept(w http.ResponseWriter, r *http.Request) {
	var q request
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	g.delivered.Go(func() {
		time.Sleep(100 * time.Millisecond)
		for range 2 {
			if err := post(context.Background(), g.hook, "evt-"+q.Key, answer{q.Key, true}); err != nil {
				fmt.Println("webhook:", err)
			}
		}
	})
	w.WriteHeader(http.StatusAccepted)
}

// post sends v as JSON; any status but 2xx is an error.
func post(ctx context.Context, url, id string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Webhook-Id", id)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if text, _ := io.ReadAll(got.Body); got.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", got.Status, text)
	}
	return nil
}

// serve answers on a free port of this machine until the program ends, and gives the address.
func serve(h http.HandlerFunc) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go http.Serve(l, h)
	return "http://" + l.Addr().String(), nil
}

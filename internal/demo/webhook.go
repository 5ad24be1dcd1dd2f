package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// webhook is the body of a message.
type webhook struct {
	Order  string `json:"order"`
	Status string `json:"status"`
	Cents  int    `json:"cents"`
}

// receiver is the shop's webhook endpoint. It returns 2xx only when the response is stored durably:
// after that, the gateway never has to resend it.
type receiver struct {
	client *sojourn.Client
	drops  func(message string) bool // the fault drop-ack
	stats  *stats
}

// ServeHTTP stores the response of a webhook and returns its outcome as JSON.
func (h *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
	var hook webhook
	if err != nil || json.Unmarshal(body, &hook) != nil {
		http.Error(w, "not a webhook", http.StatusBadRequest)
		return
	}
	id := r.Header.Get("Webhook-Id")
	outcome := sojourn.Applied
	if !h.drops(id) {
		a, err := h.client.Respond(context.WithoutCancel(r.Context()), response(id, hook, body))
		if err != nil {
			h.stats.event("webhook %s: %v", id, err)
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		outcome = a.Outcome
	}
	if outcome != sojourn.Applied {
		h.stats.event("%s: answer is %s", hook.Order, outcome)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]sojourn.ResponseOutcome{"outcome": outcome}) // a lost answer is sent again
}

// ofGateway names the gateway in the inbox.
const ofGateway = "gateway"

func response(id string, hook webhook, body []byte) *sojourn.Response {
	r := &sojourn.Response{Kind: chargeCard.Name, Key: hook.Order, Source: ofGateway, MessageID: id, Body: body, ContentType: "application/json"}
	if hook.Status == failed {
		r.Failed, r.Reason, r.Error = true, "gateway_error", "the gateway could not reach the bank"
	}
	return r
}

// poster sends one webhook and returns the outcome that the receiver reports.
type poster func(m *message) (sojourn.ResponseOutcome, error)

// postTo sends webhooks to a URL.
func postTo(client *http.Client, url string) poster {
	return func(m *message) (sojourn.ResponseOutcome, error) {
		body, err := json.Marshal(webhook{m.Order, m.Status, m.Cents})
		if err != nil {
			return "", err
		}
		req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		req.Header.Set("Webhook-Id", m.ID)
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		var said struct {
			Outcome sojourn.ResponseOutcome `json:"outcome"`
		}
		if resp.StatusCode/100 != 2 {
			io.Copy(io.Discard, resp.Body) // so that the connection can be used again
			return "", fmt.Errorf("webhook %s: %s", m.ID, resp.Status)
		}
		err = json.NewDecoder(resp.Body).Decode(&said)
		return said.Outcome, err
	}
}

// senders holds the gateway's messages that are not acknowledged yet.
type senders struct {
	mu      sync.Mutex // guards what follows
	pending map[string]*message
	timers  map[*time.Timer]bool
	closed  bool
	busy    sync.WaitGroup
	slots   chan struct{}
	ack     func(id string, outcome sojourn.ResponseOutcome) error // called when a message got its 2xx
	fail    func(error)                                            // called when a file could not be written
}

const (
	maxSenders = 32
	firstRetry = 200 * time.Millisecond
	lastRetry  = 5 * time.Second
)

func (s *senders) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending)
}

// start sends the messages pending from an earlier process, and every later one. ack and fail may
// be called concurrently.
func (g *gateway) start(ack func(string, sojourn.ResponseOutcome) error, fail func(error)) {
	s := &g.senders
	s.mu.Lock()
	s.timers, s.slots, s.ack, s.fail = map[*time.Timer]bool{}, make(chan struct{}, maxSenders), ack, fail
	var old []*message
	for _, m := range s.pending {
		old = append(old, m)
	}
	s.mu.Unlock()
	for _, m := range old {
		g.schedule(m)
	}
}

// stop ends the sending: messages on the wire get their answer, all others stay in the gateway's
// memory.
func (g *gateway) stop() {
	s := &g.senders
	s.mu.Lock()
	s.closed = true
	for t := range s.timers {
		if t.Stop() {
			s.busy.Done()
		}
	}
	s.mu.Unlock()
	s.busy.Wait()
}

// schedule sends m when it is due.
func (g *gateway) schedule(m *message) { g.after(time.Until(m.Due), m, firstRetry) }

func (g *gateway) after(d time.Duration, m *message, retry time.Duration) {
	s := &g.senders
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[m.ID] = m
	if s.closed {
		return
	}
	s.busy.Add(1)
	var t *time.Timer
	t = time.AfterFunc(max(d, 0), func() {
		defer s.busy.Done()
		s.mu.Lock()
		delete(s.timers, t)
		closed := s.closed
		s.mu.Unlock()
		if !closed {
			g.send(m, retry)
		}
	})
	s.timers[t] = true
}

// deliverNow sends m while the request that caused it still waits.
func (g *gateway) deliverNow(m *message) {
	s := &g.senders
	s.mu.Lock()
	s.pending[m.ID] = m
	closed := s.closed
	if !closed {
		s.busy.Add(1)
	}
	s.mu.Unlock()
	if !closed {
		defer s.busy.Done()
		g.send(m, firstRetry)
	}
}

// send posts m once, and again later without a 2xx.
func (g *gateway) send(m *message, retry time.Duration) {
	s := &g.senders
	s.slots <- struct{}{}
	outcome, err := g.post(m)
	<-s.slots
	if err != nil {
		g.after(retry, m, min(2*retry, lastRetry))
		return
	}
	if err := s.ack(m.ID, outcome); err != nil {
		s.fail(err)
		return
	}
	if m.Twice {
		again := *m
		again.Twice = false
		g.after(firstRetry, &again, firstRetry)
		return
	}
	if err := g.journal.append(memory{Delivered: m.ID}); err != nil {
		s.fail(err)
		return
	}
	s.mu.Lock()
	delete(s.pending, m.ID)
	s.mu.Unlock()
	g.mu.Lock()
	if c := g.charges[m.Charge]; c != nil && c.last != nil && c.last.ID == m.ID {
		c.done = true
	}
	g.mu.Unlock()
}

package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// gateway simulates a payment provider with an HTTP server, webhooks, and its own storage, which
// survives a kill -9. A repeated request with the same Idempotency-Key is charged only once.
type gateway struct {
	seed    uint64
	world   World
	journal *journal
	post    poster

	mu      sync.Mutex // guards what follows
	charges map[string]*charge
	paid    map[string]string // order → the Idempotency-Key that paid it
	first   map[string]string // order → its first Idempotency-Key; another one is of a redrive
	counts  Gateway

	senders senders
}

// Gateway counts the events at the payment provider since its file was created.
type Gateway struct {
	Requests     int `json:"requests"`      // of this process
	Repeated     int `json:"repeated"`      // of them, under an Idempotency-Key that was there before
	Busy         int `json:"busy"`          // of them, turned away with 429
	Unanswered   int `json:"unanswered"`    // tries that get no answer
	AtOnce       int `json:"at_once"`       // tries answered before their own request returned
	Twice        int `json:"twice"`         // tries answered two times
	Errors       int `json:"errors"`        // tries answered with an error
	Strangers    int `json:"strangers"`     // answers for orders that nobody placed
	Charged      int `json:"charged"`       // orders that were paid
	ChargedTwice int `json:"charged_twice"` // orders that were paid under two Idempotency-Keys: 0, unless somebody redrives
	Pending      int `json:"pending"`       // messages that have not got their 2xx yet
}

// charge is the gateway's record of an Idempotency-Key.
type charge struct {
	Key   string `json:"key"`
	Order string `json:"order"`
	Cents int    `json:"cents"`
	Try   int    `json:"try"`
	Fate  string `json:"fate"` // the status it will answer, or never

	requests int
	last     *message // of this try; nil if it never answers
	done     bool     // last has got its 2xx
}

const never = "never"

// message is a webhook that the gateway sends until it gets a 2xx.
type message struct {
	ID     string    `json:"id"`
	Charge string    `json:"charge,omitempty"` // empty for a stranger's
	Order  string    `json:"order"`
	Status string    `json:"status"`
	Cents  int       `json:"cents,omitempty"`
	Due    time.Time `json:"due"`
	Twice  bool      `json:"twice,omitempty"`
}

// memory is a line of the gateway's file.
type memory struct {
	Charge    *charge  `json:"charge,omitempty"`
	AtOnce    bool     `json:"at_once,omitempty"` // of the charge
	Message   *message `json:"message,omitempty"`
	Delivered string   `json:"delivered,omitempty"`
}

// openGateway loads the gateway's storage. Nothing is sent before start.
func openGateway(path string, c Config, post poster) (*gateway, error) {
	g := &gateway{seed: c.Seed, world: c.World, post: post, charges: map[string]*charge{}, paid: map[string]string{}, first: map[string]string{}}
	pending := map[string]*message{}
	j, err := openJournal(path, func(m memory) { g.remember(m, pending) })
	if err != nil {
		return nil, fmt.Errorf("the gateway: %w", err)
	}
	g.journal = j
	g.senders.pending = pending
	return g, nil
}

// remember replays one line.
func (g *gateway) remember(m memory, pending map[string]*message) {
	switch {
	case m.Charge != nil:
		g.charges[m.Charge.Key] = m.Charge
		g.notice(m.Charge)
		g.count(m.Charge.Fate, m.AtOnce)
	case m.Message != nil:
		pending[m.Message.ID] = m.Message
		g.expect(m.Message)
	case m.Delivered != "":
		if d, ok := pending[m.Delivered]; ok {
			delete(pending, m.Delivered)
			g.delivered(d)
		}
	}
}

// notice remembers under which key an order has come first.
func (g *gateway) notice(c *charge) {
	if g.first[c.Order] == "" {
		g.first[c.Order] = c.Key
	}
}

func (g *gateway) count(fate string, atOnce bool) {
	switch fate {
	case never:
		g.counts.Unanswered++
	case failed:
		g.counts.Errors++
	}
	if atOnce {
		g.counts.AtOnce++
	}
}

// expect books a message that will be sent. An approved charge is made when it is decided, not when
// its message arrives.
func (g *gateway) expect(m *message) {
	c := g.charges[m.Charge]
	if c == nil {
		g.counts.Strangers++
		return
	}
	c.last, c.done = m, false
	if m.Twice {
		g.counts.Twice++
	}
	if m.Status != approved {
		return
	}
	switch key, ok := g.paid[m.Order]; {
	case !ok:
		g.paid[m.Order] = m.Charge
		g.counts.Charged++
	case key != m.Charge:
		g.counts.ChargedTwice++
	}
}

func (g *gateway) delivered(m *message) {
	if c := g.charges[m.Charge]; c != nil && c.last == m {
		c.done = true
	}
}

// snapshot gives the counts.
func (g *gateway) snapshot() Gateway {
	g.mu.Lock()
	defer g.mu.Unlock()
	counts := g.counts
	counts.Pending = g.senders.count()
	return counts
}

// order is the body of a request to the gateway.
type order struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

// ServeHTTP takes a request for money: 202, and the answer comes later; 429 if the gateway is busy.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var o order
	key := r.Header.Get("Idempotency-Key")
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&o); err != nil || key == "" || o.Order == "" {
		http.Error(w, "needs an Idempotency-Key and an order", http.StatusBadRequest)
		return
	}
	send, now, err := g.accept(key, o)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	case send == nil:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "busy", http.StatusTooManyRequests)
		return
	}
	for _, m := range send {
		if now && m.Charge != "" {
			g.deliverNow(m)
		} else {
			g.schedule(m)
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// accept decides about a request and writes it down before anything is sent. It returns the
// messages to send, none in an empty slice; nil means busy.
func (g *gateway) accept(key string, o order) (send []*message, atOnce bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts.Requests++
	c := g.charges[key]
	if c == nil {
		c = &charge{Key: key, Order: o.Order, Cents: o.Cents}
		g.charges[key] = c
		g.notice(c)
	} else {
		g.counts.Repeated++
	}
	c.requests++
	if g.world.busy(g.seed, o.Order, c.requests) {
		g.counts.Busy++
		return nil, false, nil
	}
	switch {
	case c.last != nil && !c.done: // the answer is on its way
		return []*message{}, false, nil
	case c.last != nil && c.last.Status != failed: // decided: say it again
		again := *c.last
		again.Due, again.Twice = time.Now(), false
		return []*message{&again}, false, nil
	}
	return g.try(c)
}

// try makes one attempt to charge the card.
func (g *gateway) try(c *charge) ([]*message, bool, error) {
	c.Try++
	f := g.world.fate(g.seed, c.Order, c.Try)
	if g.first[c.Order] != c.Key { // redriven: meanwhile the customer has another card
		f = fate{status: approved, delay: f.delay}
	}
	c.Fate = f.status
	if f.never {
		c.Fate = never
	}
	if err := g.journal.append(memory{Charge: c, AtOnce: f.atOnce}); err != nil {
		return nil, false, err
	}
	c.last = nil
	g.count(c.Fate, f.atOnce)
	send := []*message{}
	due := time.Now().Add(f.delay)
	if !f.never {
		send = append(send, &message{ID: fmt.Sprintf("evt_%s_%d", c.Key, c.Try), Charge: c.Key, Order: c.Order,
			Status: f.status, Cents: c.Cents, Due: due, Twice: f.twice})
	}
	if f.stranger {
		send = append(send, &message{ID: fmt.Sprintf("evt_stranger_%s_%d", c.Key, c.Try), Order: "foreign-" + c.Order, Status: approved, Due: due})
	}
	for _, m := range send {
		if err := g.journal.append(memory{Message: m}); err != nil {
			return nil, false, err
		}
		g.expect(m)
	}
	return send, f.atOnce, nil
}

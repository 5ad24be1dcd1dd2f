package demo

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// mailbox is the target of webhooks.
type mailbox struct {
	got    chan message
	refuse int // so many before the first 2xx
}

func (b *mailbox) post(m *message) (sojourn.ResponseOutcome, error) {
	if b.refuse > 0 {
		b.refuse--
		return "", errors.New("503")
	}
	b.got <- *m
	return sojourn.Applied, nil
}

// ids are the messages that have come, in their order.
func (b *mailbox) ids() (ids []string) {
	for {
		select {
		case m := <-b.got:
			ids = append(ids, m.ID)
		default:
			return ids
		}
	}
}

// inWorld runs fn with a gateway whose file is path, in a bubble with its own clock.
func inWorld(t *testing.T, path string, w World, fn func(g *gateway, b *mailbox, acks *[]string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &mailbox{got: make(chan message, 100)}
		c := Defaults()
		c.Seed, c.World = 1, w
		g, err := openGateway(path, c, b.post)
		if err != nil {
			t.Fatal(err)
		}
		var acks []string
		g.start(func(id string, _ sojourn.ResponseOutcome) error { acks = append(acks, id); return nil },
			func(err error) { t.Error(err) })
		fn(g, b, &acks)
		g.stop()
		if err := g.journal.close(); err != nil {
			t.Fatal(err)
		}
	})
}

func charge1(t *testing.T, g *gateway, key string) int {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"order":"order-1","cents":100}`))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w.Code
}

// pass advances the time and waits until all goroutines are blocked.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func plain() World { return World{MinDelay: time.Second, MaxDelay: time.Second, Skew: 1} }

func newFile(t *testing.T) string { return filepath.Join(t.TempDir(), "demo.gateway") }

func TestRepeatedRequestChargesOnce(t *testing.T) {
	inWorld(t, newFile(t), plain(), func(g *gateway, b *mailbox, acks *[]string) {
		for range 3 {
			if code := charge1(t, g, "k"); code != http.StatusAccepted {
				t.Fatal(code)
			}
		}
		pass(2 * time.Second)
		if ids := b.ids(); !slices.Equal(ids, []string{"evt_k_1"}) {
			t.Fatalf("messages while the answer is on its way: %v", ids)
		}
		charge1(t, g, "k")
		pass(time.Second)
		if ids := b.ids(); !slices.Equal(ids, []string{"evt_k_1"}) {
			t.Fatalf("messages after the answer: %v, want the same once more", ids)
		}
		if c := g.snapshot(); c.Charged != 1 || c.ChargedTwice != 0 || c.Requests != 4 || c.Repeated != 3 || c.Pending != 0 {
			t.Errorf("%+v", c)
		}
		charge1(t, g, "other key for the same order")
		if c := g.snapshot(); c.ChargedTwice != 1 {
			t.Errorf("a second key for the same order is not seen: %+v", c)
		}
	})
}

// TestRedrivenOrderIsApproved: an order that comes again under another key was redriven. It is
// approved, so that visitors see a redrive succeed. The gateway knows so after a restart too.
func TestRedrivenOrderIsApproved(t *testing.T) {
	w, path := plain(), newFile(t)
	w.Declined = 1
	status := func(b *mailbox) (all []string) {
		for {
			select {
			case m := <-b.got:
				all = append(all, m.Charge+" "+m.Status)
			default:
				return all
			}
		}
	}
	inWorld(t, path, w, func(g *gateway, b *mailbox, _ *[]string) {
		charge1(t, g, "k")
		pass(2 * time.Second)
		if all := status(b); !slices.Contains(all, "k declined") {
			t.Fatalf("messages: %v", all)
		}
	})
	w.Never, w.Declined, w.Errors = 1, 0, 1
	inWorld(t, path, w, func(g *gateway, b *mailbox, _ *[]string) {
		charge1(t, g, "k2")
		pass(2 * time.Second)
		if all := status(b); !slices.Contains(all, "k2 approved") {
			t.Fatalf("messages after the redrive: %v", all)
		}
	})
}

func TestGatewayMoods(t *testing.T) {
	for _, c := range []struct {
		name string
		mood func(w *World)
		want []string // messages after 5 s
		code int
	}{
		{"plain", func(*World) {}, []string{"evt_k_1"}, 202},
		{"never", func(w *World) { w.Never = 1 }, nil, 202},
		{"twice", func(w *World) { w.Twice = 1 }, []string{"evt_k_1", "evt_k_1"}, 202},
		{"busy", func(w *World) { w.Busy = 1 }, nil, 429},
		{"stranger", func(w *World) { w.Never, w.Strangers = 1, 1 }, []string{"evt_stranger_k_1"}, 202},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := plain()
			c.mood(&w)
			inWorld(t, newFile(t), w, func(g *gateway, b *mailbox, acks *[]string) {
				if code := charge1(t, g, "k"); code != c.code {
					t.Fatalf("code %d", code)
				}
				pass(5 * time.Second)
				if ids := b.ids(); !slices.Equal(ids, c.want) || !slices.Equal(*acks, c.want) {
					t.Errorf("messages %v, acknowledged %v, want %v", ids, *acks, c.want)
				}
			})
		})
	}
}

func TestAnswerAtOnceComesBeforeTheRequestReturns(t *testing.T) {
	w := plain()
	w.AtOnce = 1
	inWorld(t, newFile(t), w, func(g *gateway, b *mailbox, _ *[]string) {
		charge1(t, g, "k")
		if ids := b.ids(); !slices.Equal(ids, []string{"evt_k_1"}) {
			t.Errorf("messages when the request returns: %v", ids)
		}
	})
}

func TestErrorAndSilenceAreTriedAgain(t *testing.T) {
	for name, mood := range map[string]func(w *World){"error": func(w *World) { w.Errors = 1 }, "never": func(w *World) { w.Never = 1 }} {
		t.Run(name, func(t *testing.T) {
			w := plain()
			mood(&w)
			inWorld(t, newFile(t), w, func(g *gateway, b *mailbox, _ *[]string) {
				charge1(t, g, "k")
				pass(2 * time.Second)
				b.ids()
				g.world = plain() // the mood is over
				charge1(t, g, "k")
				pass(2 * time.Second)
				if ids := b.ids(); !slices.Equal(ids, []string{"evt_k_2"}) {
					t.Errorf("messages of the second try: %v", ids)
				}
				if c := g.snapshot(); c.Charged != 1 || c.Errors+c.Unanswered != 1 {
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

func TestGatewaySendsUntilItIsAcknowledged(t *testing.T) {
	inWorld(t, newFile(t), plain(), func(g *gateway, b *mailbox, acks *[]string) {
		b.refuse = 8
		charge1(t, g, "k")
		pass(time.Second + firstRetry)
		if len(*acks) != 0 || g.snapshot().Pending != 1 {
			t.Errorf("acknowledged %v while the shop refuses", *acks)
		}
		pass(time.Minute)
		if ids := b.ids(); !slices.Equal(ids, []string{"evt_k_1"}) || b.refuse != 0 {
			t.Errorf("messages %v, %d refusals left", ids, b.refuse)
		}
	})
}

// After a kill -9 the gateway still sends its unacknowledged messages, and does not resend
// acknowledged ones.
func TestGatewayGoesOnAfterARestart(t *testing.T) {
	file := newFile(t)
	inWorld(t, file, plain(), func(g *gateway, b *mailbox, _ *[]string) {
		charge1(t, g, "answered")
		pass(2 * time.Second)
		charge1(t, g, "open")
		if ids := b.ids(); !slices.Equal(ids, []string{"evt_answered_1"}) {
			t.Fatal(ids)
		}
	})
	inWorld(t, file, plain(), func(g *gateway, b *mailbox, _ *[]string) {
		charge1(t, g, "open") // on its way already
		pass(time.Minute)
		if ids := b.ids(); !slices.Equal(ids, []string{"evt_open_1"}) {
			t.Errorf("messages after the restart: %v", ids)
		}
		if c := g.snapshot(); c.Charged != 1 || c.ChargedTwice != 1 || c.Pending != 0 { // both keys are for the same order
			t.Errorf("%+v", c)
		}
	})
}

func TestGatewayRefusesNonsense(t *testing.T) {
	inWorld(t, newFile(t), plain(), func(g *gateway, _ *mailbox, _ *[]string) {
		for i, body := range []string{`{"order":"o"`, `{}`, ``, `{"order":"` + strings.Repeat("x", 1<<17) + `"}`} {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			r.Header.Set("Idempotency-Key", fmt.Sprint(i))
			w := httptest.NewRecorder()
			if g.ServeHTTP(w, r); w.Code != http.StatusBadRequest {
				t.Errorf("body %d: %d", i, w.Code)
			}
		}
		if code := charge1(t, g, ""); code != http.StatusBadRequest {
			t.Errorf("without an Idempotency-Key: %d", code)
		}
	})
}

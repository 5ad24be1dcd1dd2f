package demo

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// short is a run of about two seconds in which much goes wrong at the gateway.
func short(path string) Config {
	c := Headless(2 * time.Second).AtRate(100)
	c.Path, c.Seed = path, 1
	c.Within, c.Backoff.First = 500*time.Millisecond, 10*time.Millisecond
	c.World = World{MinDelay: 5 * time.Millisecond, MaxDelay: 300 * time.Millisecond, Skew: 2,
		Never: 0.1, Twice: 0.1, AtOnce: 0.1, Errors: 0.15, Declined: 0.05, Busy: 0.02, Strangers: 0.05}
	c.Express, c.Later, c.Withdrawn = 0.1, 0, 0.05
	return c
}

func open(t *testing.T, path string) *sojourn.Client {
	t.Helper()
	c, err := sqlite.Open(path, sqlite.InboxTTL(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func check(t *testing.T, r Report, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() {
		t.Errorf("not all is accounted for: %+v\n%s", r, strings.Join(r.Problems, "\n"))
	}
}

// inv:A1 over two runs on one file: nothing that was acknowledged is lost, and the second goes on
// where the first stopped.
func TestRunAccountsForEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "demo.db")
	cfg := short(path)
	shots := 0
	r, err := Run(context.Background(), open(t, path), cfg, func(Snapshot) { shots++ })
	check(t, r, err)
	if r.Enqueued != cfg.Orders || r.Completed < r.Enqueued/2 || r.Failed == 0 {
		t.Errorf("%+v", r)
	}
	if a := r.Responses; a.Applied == 0 || a.Early == 0 || a.Duplicate == 0 {
		t.Errorf("the gateway is too well behaved: %+v", a)
	}
	if g := r.Gateway; g.Unanswered == 0 || g.Repeated == 0 || g.AtOnce == 0 || g.Twice == 0 || g.Errors == 0 || g.ChargedTwice != 0 {
		t.Errorf("the gateway is too well behaved: %+v", g)
	}
	if r.EnqueueMS.P50 <= 0 || r.WaitMS.P99 < r.WaitMS.P50 || !strings.HasPrefix(r.Store, "sqlite ") {
		t.Errorf("%+v", r)
	}
	if shots < 2 || shots > 12 {
		t.Errorf("%d snapshots", shots)
	}

	// The first client is still open, as that of a process that was killed: it holds no lease any
	// more.
	cfg.Orders, cfg.For = 20, time.Second
	more, err := Run(context.Background(), open(t, path), cfg, nil)
	check(t, more, err)
	if more.Enqueued != r.Enqueued+20 || more.Gateway.ChargedTwice != 0 || more.Live > r.Live+20 {
		t.Errorf("after %+v\ncame  %+v", r, more)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	cfg := short(filepath.Join(t.TempDir(), "demo.db"))
	cfg.For, cfg.Orders = 0, 0
	ctx, cancel := context.WithCancel(context.Background())
	r, err := Run(ctx, open(t, cfg.Path), cfg, func(s Snapshot) {
		if s.Enqueued >= 20 {
			cancel()
		}
	})
	check(t, r, err)
	if r.Enqueued < 20 {
		t.Errorf("%+v", r)
	}
}

// An audit that cannot fail is worth nothing.
func TestDropAckIsFound(t *testing.T) {
	cfg := short(filepath.Join(t.TempDir(), "demo.db"))
	cfg.Fault, cfg.For = DropAck, time.Second
	r, err := Run(context.Background(), open(t, cfg.Path), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.OK() || r.Lost == 0 || len(r.Problems) == 0 || r.Completed+r.Failed+r.Cancelled+r.Live >= r.Enqueued {
		t.Errorf("%+v", r)
	}
}

func TestRunOnAClosedStore(t *testing.T) {
	cfg := short(filepath.Join(t.TempDir(), "demo.db"))
	c := open(t, cfg.Path)
	c.Close()
	if _, err := Run(context.Background(), c, cfg, nil); !errors.Is(err, sojourn.ErrClosed) {
		t.Errorf("%v", err)
	}
	cfg.Rate = -1
	if _, err := Run(context.Background(), c, cfg, nil); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		t.Errorf("%v", err)
	}
}

// The store breaks in the middle of a run: the run says so and ends.
func TestRunEndsWhenTheStoreBreaks(t *testing.T) {
	cfg := short(filepath.Join(t.TempDir(), "demo.db"))
	cfg.For, cfg.Orders = time.Minute, 0
	c := open(t, cfg.Path)
	_, err := Run(context.Background(), c, cfg, func(s Snapshot) {
		if s.Enqueued >= 20 {
			c.Close()
		}
	})
	if !errors.Is(err, sojourn.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// The receiver acknowledges nothing that is not stored.
func TestReceiverAcknowledgesOnlyWhatIsStored(t *testing.T) {
	c := open(t, filepath.Join(t.TempDir(), "demo.db"))
	h := &receiver{client: c, drops: func(string) bool { return false }, stats: &stats{}}
	post := func(body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Webhook-Id", "evt_1")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if w := post("{"); w.Code != http.StatusBadRequest {
		t.Errorf("no JSON: %d", w.Code)
	}
	for _, want := range []string{`{"outcome":"early"}`, `{"outcome":"duplicate"}`} {
		if w := post(`{"order":"order-1","status":"approved"}`); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%d %s, want %s", w.Code, w.Body, want)
		}
	}
	c.Close()
	if w := post(`{"order":"order-2","status":"approved"}`); w.Code/100 == 2 {
		t.Errorf("acknowledged by a closed store: %d", w.Code)
	}
}

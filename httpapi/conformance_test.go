package httpapi_test

import (
	"context"
	"crypto/sha256"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi"
	"github.com/sojourn-queue/sojourn/httpapi/server"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/store/postgres"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/store/storetest"
)

// far is a store behind a server, with the hook by which the suite tells that its clock has moved.
type far struct {
	*httpapi.Store
	behind driver.Store
	t      *testing.T
}

func (f far) Nudge() { f.behind.(interface{ Nudge() }).Nudge() }

// Keeper is what keeps the access tokens behind the server.
func (f far) Keeper() access.Keeper { return f.behind.(access.Keeper) }

// As is the same store as the holder of a token sees it, through a server that asks for tokens.
func (f far) As(c *access.Caller) driver.Store {
	f.t.Helper()
	bearer := "sj_" + c.Token + "_secret"
	hash := sha256.Sum256([]byte(bearer))
	token := access.Token{ID: c.Token, Name: c.Token, Hash: hash[:], Grants: c.Grants, ExpiresAt: time.Now().Add(time.Hour)}
	if err := f.behind.(access.Keeper).SetAccessToken(f.t.Context(), token); err != nil {
		f.t.Fatal(err)
	}
	return dial(f.t, f.behind, server.Options{MaxQueues: c.MaxQueues}, httpapi.Token(bearer))
}

// serving starts a server over a store and dials it.
func serving(t *testing.T, behind *sojourn.Client) far {
	t.Helper()
	t.Cleanup(func() { _ = behind.Close() })
	return far{dial(t, driver.Of(behind), server.Options{Open: true}), driver.Of(behind), t}
}

func dial(t *testing.T, behind driver.Store, o server.Options, options ...httpapi.Option) *httpapi.Store {
	t.Helper()
	h, err := server.New(context.Background(), behind, o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	c, err := httpapi.Dial(s.URL, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		h.Drain()
		s.Close()
	})
	return c.Store().(*httpapi.Store)
}

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.Stop()
	os.Exit(code)
}

// TestConformanceSQLite runs the whole suite through HTTP, with SQLite behind the server.
func TestConformanceSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T, o storetest.Options) driver.Store {
		options := []sqlite.Option{sqlite.Clock(o.Now)}
		for queue, throttler := range o.Throttlers {
			options = append(options, sqlite.Throttle(queue, throttler))
		}
		if o.Rules != nil {
			options = append(options, sqlite.Rules(o.Rules))
		}
		if o.MaxBytes > 0 {
			options = append(options, sqlite.MaxBytes(o.MaxBytes))
		}
		if o.InboxTTL > 0 {
			options = append(options, sqlite.InboxTTL(o.InboxTTL))
		}
		c, err := sqlite.Open(":memory:", options...)
		if err != nil {
			t.Fatal(err)
		}
		return serving(t, c)
	})
}

// TestConformancePostgres runs it with PostgreSQL behind the server.
func TestConformancePostgres(t *testing.T) {
	url := pgtest.URL(t)
	storetest.Run(t, func(t *testing.T, o storetest.Options) driver.Store {
		options := []postgres.Option{postgres.Clock(o.Now), postgres.Schema(pgtest.EmptySchema(t)), postgres.AutoMigrate()}
		for queue, throttler := range o.Throttlers {
			options = append(options, postgres.Throttle(queue, throttler))
		}
		if o.Rules != nil {
			options = append(options, postgres.Rules(o.Rules))
		}
		if o.MaxBytes > 0 {
			options = append(options, postgres.MaxBytes(o.MaxBytes))
		}
		if o.InboxTTL > 0 {
			options = append(options, postgres.InboxTTL(o.InboxTTL))
		}
		c, err := postgres.Open(url, options...)
		if err != nil {
			t.Fatal(err)
		}
		return serving(t, c)
	})
}

package crash

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/store/postgres"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

// childChains is a mode of the child: it works on chains until killed.
const childChains = "chains"

// link is one job of a chain: it writes its number beside those before, completes itself and
// enqueues the next link, all in one transaction.
type link struct{ Chain, N int }

var links = sojourn.Kind[link]{Name: "link", Policy: patient}

// shop is an application beside a store, on either database.
type shop struct {
	client  *sojourn.Client
	db      *sql.DB
	enqueue func(ctx context.Context, c *sojourn.Client, tx *sql.Tx, jobs ...*sojourn.Job) ([]sojourn.Enqueued, error)
	finish  func(ctx context.Context, c *sojourn.Client, tx *sql.Tx, job *sojourn.Job, next ...*sojourn.Job) error
	settle  string // waits for open writers of table app
}

// openShop opens a PostgreSQL URL or a SQLite file.
func openShop(address string) (s shop, err error) {
	if strings.HasPrefix(address, "postgres") {
		s.enqueue, s.finish, s.settle = postgres.EnqueueSQL, postgres.FinishSQL, "lock table app in share mode"
		if s.client, err = postgres.Open(address, postgres.AutoMigrate()); err == nil {
			s.db, err = sql.Open("pgx", address)
		}
	} else {
		s.enqueue, s.finish, s.settle = sqlite.EnqueueTx, sqlite.FinishTx, "select 1"
		if s.client, err = sqlite.Open(address); err == nil {
			s.db, err = sql.Open("sqlite", "file:"+address+"?_txlock=immediate&_pragma=busy_timeout(10000)")
		}
	}
	if err == nil {
		_, err = s.db.Exec("create table if not exists app (chain bigint not null, n bigint not null)") // no unique key: a second write would show
	}
	return s, err
}

func (s shop) close() error { return errors.Join(s.db.Close(), s.client.Close()) }

// chain works on links until ctx ends.
func chain(ctx context.Context, address string) error {
	s, err := openShop(address)
	if err != nil {
		return err
	}
	defer s.close()
	w := worker.New(s.client, worker.Options{Concurrency: 8, Grace: -1, Lease: time.Second, SweepEvery: 100 * time.Millisecond})
	worker.Handle(w, links, func(ctx context.Context, job *sojourn.Job, l link) error {
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.Exec("insert into app (chain, n) values ($1, $2)", l.Chain, l.N); err != nil {
			return err
		}
		if err := s.finish(ctx, s.client, tx, job); err != nil {
			return err
		}
		if _, err := s.enqueue(ctx, s.client, tx, links.New(link{l.Chain, l.N + 1})); err != nil {
			return err
		}
		if rand.IntN(10) == 0 {
			return nil // a mistake: the deferred Rollback undoes it all
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		s.client.Wake()
		return nil
	})
	return w.Run(ctx)
}

// settled waits for commits of the killed process that a PostgreSQL server still carries out: one
// between the audit's reads would look torn.
func (s shop) settled(ctx context.Context) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	_, err = tx.Exec(s.settle)
	return err
}

// auditChains wants each number of each chain to be written once, by a completed job, and the next
// link to be there.
func auditChains(t *testing.T, s shop, chains int) (total int) {
	t.Helper()
	if err := s.settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := make([]int, chains)
	rows, err := s.db.Query("select chain, n from app order by chain, n")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var c, n int
		if err := rows.Scan(&c, &n); err != nil {
			t.Fatal(err)
		}
		if n != next[c] {
			t.Fatalf("chain %d has %d where %d is expected", c, n, next[c])
		}
		next[c], total = n+1, total+1
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	completed := 0
	for j, err := range s.client.Jobs().All(t.Context(), sojourn.Filter{Limit: sojourn.MaxFind, Full: true}) {
		if err != nil {
			t.Fatal(err)
		}
		l, err := links.Decode(j)
		if err != nil {
			t.Fatal(err)
		}
		if done := j.State == sojourn.Completed; done != (l.N < next[l.Chain]) || !done && l.N != next[l.Chain] {
			t.Errorf("job %d, link %+v, is %v, and the chain has %d numbers", j.ID, l, j.State, next[l.Chain])
		} else if done {
			completed++
		}
	}
	if completed != total {
		t.Errorf("%d completed jobs have written %d numbers", completed, total)
	}
	found, err := s.client.Store().(driver.Checker).Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("doctor: %v %v", found, err)
	}
	return total
}

// killChains kills a process between the statements of its transactions, again and again (inv:A8):
// every effect happens exactly once, though deliveries do not.
func killChains(t *testing.T, address string, cycles int) {
	const chains = 4
	s, err := openShop(address)
	if err != nil {
		t.Fatal(err)
	}
	for c := range chains {
		if _, err := s.client.Enqueue(t.Context(), links.New(link{c, 0})); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	last := 0
	for range cycles {
		newLedger().run(t, childChains, address, time.Duration(200+random.IntN(1500))*time.Millisecond)
		s, err := openShop(address)
		if err != nil {
			t.Fatal(err)
		}
		last = auditChains(t, s, chains)
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kill -9 cycles, %d effects, each exactly once", cycles, last)
	if last < cycles {
		t.Error("the chains hardly moved: the test shows nothing")
	}
}

// TestKillInTransactionsSQLite kills handlers with transactions in a SQLite file.
func TestKillInTransactionsSQLite(t *testing.T) {
	killChains(t, filepath.Join(t.TempDir(), "crash.db"), cycles(t))
}

// TestKillInTransactionsPostgres kills handlers with transactions in PostgreSQL.
func TestKillInTransactionsPostgres(t *testing.T) {
	schema := pgtest.NewSchema(t)
	pgtest.SQL(t, pgtest.URL(t), "create schema "+schema)
	killChains(t, pgtest.With(t, pgtest.URL(t), "search_path", schema), cycles(t))
}

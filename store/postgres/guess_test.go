package postgres

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
)

// TestGuessesAreAsked: a transaction that stores and starts a job uses cached reads and validates
// them at commit, so it respects concurrent changes by another node.
func TestGuessesAreAsked(t *testing.T) {
	priority := int32(7)
	set := func(queue string, q sojourn.QueueSettings) func(*sojourn.Client) error {
		return func(b *sojourn.Client) error { return b.Queues().Set(context.Background(), queue, q) }
	}
	other := func(options ...sojourn.Option) func(*sojourn.Client) error {
		return func(b *sojourn.Client) error {
			_, err := b.Enqueue(context.Background(), sojourn.NewJob("k", []byte(`"other"`), options...))
			return err
		}
	}
	for name, c := range map[string]struct {
		change   func(b *sojourn.Client) error
		starts   string // args of the job that starts
		priority int32  // of the job that is stored
	}{
		"nothing":            {func(*sojourn.Client) error { return nil }, "mine", 100},
		"a job before it":    {other(), "other", 100},
		"one that falls due": {other(sojourn.Delay(time.Millisecond)), "other", 100},
		"a pause":            {set("default", sojourn.QueueSettings{Paused: true}), "", 100},
		"a pause of all":     {set(sojourn.AllQueues, sojourn.QueueSettings{Paused: true}), "", 100},
		"a limit of nothing": {set("default", sojourn.QueueSettings{PausedKinds: []string{"k"}}), "", 100},
		"a default":          {set("default", sojourn.QueueSettings{Defaults: sojourn.Policy{Priority: &priority}}), "mine", priority},
		"a drain": {func(b *sojourn.Client) error {
			return b.Store().DrainWorker(context.Background(), "w")
		}, "", 100},
	} {
		t.Run(name, func(t *testing.T) {
			a, schema := openNamed(t)
			b, err := Open(testURL(t), Schema(schema))
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			claim := func(number int64, atMost int) (args []string) {
				jobs, _ := driver.Of(a).Claim(t.Context(), driver.ClaimRequest{Worker: "w", Number: number, Queues: []string{"default"}, Kinds: []string{"k"},
					Max: atMost, Capacity: 9})
				for _, j := range jobs {
					args = append(args, strings.Trim(string(j.Job.Args), `"`))
				}
				return args
			}
			mine := sojourn.NewJob("k", []byte(`"mine"`))
			for range 2 { // the second finds the queue
				if _, err := a.Enqueue(t.Context(), sojourn.NewJob("k", nil)); err != nil {
					t.Fatal(err)
				}
			}
			if started := claim(1, 9); len(started) != 2 {
				t.Fatal(started)
			}
			if err := c.change(b); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond) // until the job is due
			var started []string
			together(t, a, schema, func() {
				if _, err := a.Enqueue(t.Context(), mine); err != nil {
					t.Error(err)
				}
			}, func() { started = claim(2, 1) })
			if want := slices.DeleteFunc([]string{c.starts}, func(s string) bool { return s == "" }); !slices.Equal(started, want) {
				t.Errorf("%q starts, not %q", started, want)
			}
			if j, err := a.Get(t.Context(), mine.ID); err != nil || j.Priority != c.priority {
				t.Errorf("%+v %v", j, err)
			}
		})
	}
}

// TestGuessedKeys: a key that another node has taken, or that occurs twice in a transaction, is
// found in spite of the cache, and so is a repeated call.
func TestGuessedKeys(t *testing.T) {
	a, schema := openNamed(t)
	b, err := Open(testURL(t), Schema(schema))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	enqueue := func(c *sojourn.Client, key string) (*sojourn.Job, sojourn.Enqueued) {
		j := sojourn.NewJob("k", nil, sojourn.Key(key))
		e, err := c.Enqueue(t.Context(), j)
		if err != nil {
			t.Fatal(key, err)
		}
		return j, e
	}
	enqueue(a, "x")
	repeated, _ := enqueue(a, "y")
	_, other := enqueue(b, "z")
	if _, e := enqueue(a, "z"); !e.Duplicate || e.ID != other.ID {
		t.Errorf("a key of another node: %+v", e)
	}
	for range 20 { // until it uses the cache again
		enqueue(a, time.Now().String())
	}
	if again, err := a.Enqueue(t.Context(), repeated); err != nil || !again.Duplicate || again.ID != repeated.ID {
		t.Errorf("a repeated call: %+v %v", again, err)
	}
	two := []*sojourn.Job{sojourn.NewJob("k", nil, sojourn.Key("w")), sojourn.NewJob("k", nil, sojourn.Key("w"))}
	for range 20 {
		enqueue(a, time.Now().String())
	}
	done, err := a.EnqueueAll(t.Context(), two...)
	if err != nil || done[0].Duplicate || !done[1].Duplicate || done[0].ID != done[1].ID {
		t.Errorf("a key that stands twice: %+v %v", done, err)
	}
}

// counted counts the messages of the store's transactions: batches and single statements.
type counted struct{ messages atomic.Int64 }

func (c *counted) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.messages.Add(1)
	return ctx
}
func (c *counted) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *counted) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (c *counted) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.messages.Add(1)
	return ctx
}
func (c *counted) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// openCounted opens a store in a new schema and counts the messages of its connections. off shifts
// the clock of this process.
func openCounted(t *testing.T) (s driver.Store, c *counted, off *atomic.Int64) {
	t.Helper()
	return openCountedIn(t, newSchema(t))
}

// openCountedIn is openCounted in a schema of the caller.
func openCountedIn(t *testing.T, schema string) (s driver.Store, c *counted, off *atomic.Int64) {
	t.Helper()
	open(t, Schema(schema), AutoMigrate()).Close()
	o, err := newOptions([]Option{Schema(schema)})
	if err != nil {
		t.Fatal(err)
	}
	db, err := openDB(t.Context(), testURL(t), o)
	if err != nil {
		t.Fatal(err)
	}
	c, off = &counted{}, &atomic.Int64{}
	trace(t, db, c)
	cfg := o.config()
	cfg.Without.Signals = true // its messages are not those of a call
	cfg.Now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
	if s, err = sqlstore.New(t.Context(), db, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, c, off
}

// trace reports the work of a database's connections to a tracer.
func trace(t *testing.T, db *DB, tracer pgx.QueryTracer) {
	t.Helper()
	pool := db.pool.Config()
	pool.ConnConfig.Tracer = tracer
	db.pool.Close()
	var err error
	if db.pool, err = pgxpool.NewWithConfig(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
}

// TestEndsAreOneMessage: the end of a step that this process has started needs only the clock, and
// predicts its time.
func TestEndsAreOneMessage(t *testing.T) {
	const lives = 20
	s, c, _ := openCounted(t)
	sent := int64(0)
	for range lives {
		if _, err := s.Enqueue(t.Context(), newOne(t, s), false); err != nil {
			t.Fatal(err)
		}
		job, before := claimOne(t, s), c.messages.Load()
		if f := finishOne(t, s, job); f.Status != driver.FinishApplied {
			t.Fatal(f)
		}
		sent += c.messages.Load() - before
	}
	if sent < lives || sent > lives+lives/2 { // the sweep sends some of its own
		t.Errorf("%d messages for %d ends", sent, lives)
	}
}

// TestEndsOfOtherProcessesReadFirst: the row of a step that another process has started is read and
// locked in the first message of the transaction, so that the end takes two.
func TestEndsOfOtherProcessesReadFirst(t *testing.T) {
	const lives = 20
	schema := newSchema(t)
	s, c, _ := openCountedIn(t, schema)
	other := driver.Of(open(t, Schema(schema)))
	sent := int64(0)
	for range lives {
		if _, err := s.Enqueue(t.Context(), newOne(t, s), false); err != nil {
			t.Fatal(err)
		}
		job, before := claimOne(t, other), c.messages.Load()
		if f := finishOne(t, s, job); f.Status != driver.FinishApplied {
			t.Fatal(f)
		}
		sent += c.messages.Load() - before
	}
	if sent < 2*lives || sent > 2*lives+lives/2 { // the sweep sends some of its own
		t.Errorf("%d messages for %d ends", sent, lives)
	}
}

// TestGuessedClock: while this process's clock runs ahead by an hour, as after a sleep of the
// machine, nothing gets its time.
func TestGuessedClock(t *testing.T) {
	s, _, off := openCounted(t)
	for range 3 { // until it uses the cache
		enqueued(t, s)
	}
	for _, hour := range []time.Duration{1, 2} {
		off.Store(int64(hour * time.Hour))
		for range 2 { // the first prediction is wrong, the second call reads
			job := enqueued(t, s)
			claimed := claimOne(t, s)
			off.Add(int64(10 * time.Minute))
			if f := finishOne(t, s, claimed); f.Status != driver.FinishApplied {
				t.Fatal(f)
			}
			ended, err := sojourn.NewClient(s).Get(t.Context(), claimed.Job.ID)
			if err != nil || time.Until(ended.FinishedAt).Abs() > time.Minute || time.Until(job.CreatedAt).Abs() > time.Minute {
				t.Errorf("enqueued at %v, ended at %v, %v", job.CreatedAt, ended.FinishedAt, err)
			}
		}
	}
}

// enqueued stores a job and reads it.
func enqueued(t *testing.T, s driver.Store) *sojourn.Job {
	t.Helper()
	one := newOne(t, s)
	if _, err := s.Enqueue(t.Context(), one, false); err != nil {
		t.Fatal(err)
	}
	j, err := sojourn.NewClient(s).Get(t.Context(), one[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/worker"
)

// refused wants Open to fail with a code and a text.
func refused(t *testing.T, address, code, text string, options ...Option) {
	t.Helper()
	c, err := Open(address, options...)
	if err == nil {
		c.Close()
	}
	if sojourn.ErrorCode(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("Open answered %v; want %s with %q", err, code, text)
	}
	if err != nil && strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error shows a password: %v", err)
	}
}

func testOptions(t *testing.T, list ...Option) options {
	t.Helper()
	o, err := newOptions(list)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestOpenRefuses: spec:A7, inv:A1. Open reports errors before it changes anything.
func TestOpenRefuses(t *testing.T) {
	address := testURL(t)
	for _, o := range []Option{MaxBytes(0), MaxBytes(sojourn.MaxMaxBytes + 1), InboxTTL(time.Millisecond), Schema("Sojourn"), Schema("a;b"), Prefix("1_"),
		Prefix(""), Prefix(strings.Repeat("x", 33))} {
		refused(t, address, sojourn.CodeInvalid, "", o)
	}
	refused(t, "postgres://me:hunter2@host:port/db", sojourn.CodeInvalid, "postgres://user:password@host:port/database")
	refused(t, "postgres://me:hunter2@127.0.0.1:1/db?connect_timeout=2", sojourn.CodeUnavailable, "127.0.0.1:1/db")
	refused(t, `{"host": ["a"]}`, sojourn.CodeInvalid, "neither a text nor a number")
	refused(t, `{"host`, sojourn.CodeInvalid, "JSON")
	for _, s := range []settings{
		{version: "12.9", number: 120_009, encoding: "UTF8", fsync: "on", fullPageWrites: "on", syncCommit: "on"},
		{version: "15.1", number: 150_001, encoding: "SQL_ASCII", fsync: "on", fullPageWrites: "on", syncCommit: "on"},
		{version: "15.1", number: 150_001, encoding: "UTF8", fsync: "on", fullPageWrites: "on", syncCommit: "on", standby: true},
		{version: "15.1", number: 150_001, encoding: "UTF8", fsync: "off", fullPageWrites: "on", syncCommit: "on"},
		{version: "15.1", number: 150_001, encoding: "UTF8", fsync: "on", fullPageWrites: "off", syncCommit: "on"},
		{version: "15.1", number: 150_001, encoding: "UTF8", fsync: "on", fullPageWrites: "on", syncCommit: "off"},
	} {
		if err := s.check("here", false); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if err := (settings{version: "13.0", number: 130_000, encoding: "UTF8", fsync: "on", fullPageWrites: "on", syncCommit: "local"}).check("here", false); err != nil {
		t.Error(err)
	}
}

// TestSchemaVersions: a missing or newer schema is refused, and the error says how to proceed.
func TestSchemaVersions(t *testing.T) {
	address, schema := testURL(t), newSchema(t)
	refused(t, address, sojourn.CodeSchema, "sojourn migrate up", Schema(schema))
	open(t, Schema(schema), AutoMigrate()).Close()
	c := open(t, Schema(schema))
	c.Close()
	execute(t, address, fmt.Sprintf("insert into %s.sj_migration (version, name, needs, at_us) values (99, 'later', 99, 0)", schema))
	refused(t, address, sojourn.CodeSchema, "use a newer program", Schema(schema))
	refused(t, address, sojourn.CodeSchema, "use a newer program", Schema(schema), AutoMigrate())
	execute(t, address, fmt.Sprintf("delete from %s.sj_migration", schema))
	refused(t, address, sojourn.CodeSchema, "sojourn migrate up", Schema(schema))
}

// TestDurability: spec:B6. A server that may lose acknowledged writes is refused; with Relaxed it
// is accepted, and Status shows it.
func TestDurability(t *testing.T) {
	address, schema := testURL(t), newSchema(t)
	c := open(t, Schema(schema), AutoMigrate())
	st, err := c.Store().Status(context.Background())
	if err != nil || st.Durability != "fsync" || st.Store != "postgres" || !strings.Contains(st.Clock, "the clock of the database") || st.Bytes == 0 {
		t.Errorf("%+v %v", st, err)
	}
	if ago := time.Since(st.Now); ago < -time.Minute || ago > time.Minute {
		t.Errorf("the clock of the database is %v behind", ago)
	}
	c.Close()
	loose := with(t, address, "synchronous_commit", "off")
	refused(t, loose, sojourn.CodeInvalid, "synchronous_commit=off", Schema(schema))
	c, err = Open(loose, Schema(schema), Relaxed())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if st, err := c.Store().Status(context.Background()); err != nil || st.Durability != "relaxed" {
		t.Errorf("%+v %v", st, err)
	}
}

// TestOpenAtOnce: processes that make the tables at the same time agree on one instance.
func TestOpenAtOnce(t *testing.T) {
	testURL(t)
	schema := newSchema(t)
	names := make([]string, 6)
	var group sync.WaitGroup
	for i := range names {
		group.Go(func() {
			c, err := Open(testURL(t), Schema(schema), AutoMigrate())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			st, err := c.Store().Status(context.Background())
			if names[i] = st.Instance; err != nil || st.Schema < 1 {
				t.Errorf("%+v %v", st, err)
			}
		})
	}
	group.Wait()
	for _, n := range names {
		if n == "" || n != names[0] {
			t.Errorf("instances %q", names)
		}
	}
}

func database(t *testing.T) (*DB, string) {
	t.Helper()
	schema := newSchema(t)
	open(t, Schema(schema), AutoMigrate()).Close()
	d, err := openDB(context.Background(), testURL(t), testOptions(t, Schema(schema)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, schema + ".sj_meta"
}

// TestUpdateRepeats: rules F and G. A lost race, a deadlock and a row that is suddenly there make
// the transaction run again, and nothing of the failed try stays.
func TestUpdateRepeats(t *testing.T) {
	d, table := database(t)
	ctx := context.Background()
	tries := 0
	err := d.Update(ctx, func(c sqldb.Conn) error {
		tries++
		if _, err := c.Exec("insert into "+table+" (name, value) values ($1, 'x')", fmt.Sprint("row ", tries)); err != nil {
			return err
		}
		switch tries {
		case 1:
			return fmt.Errorf("a key: %w", sqldb.ErrRaced)
		case 2:
			_, err := c.Exec("insert into " + table + " (name, value) values ('row 2', 'y')") // unique violation
			return err
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Error(tries, err)
	}
	tries = 0
	err = d.Update(ctx, func(sqldb.Conn) error { tries++; return sqldb.ErrRaced })
	if !errors.Is(err, sqldb.ErrRaced) || tries != maxRaces {
		t.Error("races without end:", tries, err)
	}
	var names []string
	if err := d.View(ctx, func(c sqldb.Conn) error {
		return c.Query("select name from "+table+" where name like 'row%'", func(r sqldb.Row) error { names = append(names, r.Text(0)); return nil })
	}); err != nil || fmt.Sprint(names) != "[row 3]" {
		t.Error(names, err)
	}
}

// TestUpdateEndsDeadlocks locks two rows in opposite order, which the database ends and Update
// repeats.
func TestUpdateEndsDeadlocks(t *testing.T) {
	d, table := database(t)
	ctx := context.Background()
	set := func(c sqldb.Conn, name string) error {
		_, err := c.Exec("insert into "+table+" (name, value) values ($1, '1') on conflict (name) do update set value = "+
			"cast(cast(excluded.value as bigint) + 1 as text)", name)
		return err
	}
	if err := d.Update(ctx, func(c sqldb.Conn) error { return errors.Join(set(c, "a"), set(c, "b")) }); err != nil {
		t.Fatal(err)
	}
	var first, group sync.WaitGroup
	first.Add(2)
	tries := make([]int, 2)
	for i, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		group.Go(func() {
			err := d.Update(ctx, func(c sqldb.Conn) error {
				tries[i]++
				if err := set(c, order[0]); err != nil {
					return err
				}
				if tries[i] == 1 {
					first.Done()
					first.Wait()
				}
				return set(c, order[1])
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if tries[0]+tries[1] != 3 {
		t.Error("tries:", tries)
	}
}

// TestConnTakesEveryType: Conn handles all types of arguments and rows, NULL and nested statements
// included.
func TestConnTakesEveryType(t *testing.T) {
	d, table := database(t)
	err := d.Update(context.Background(), func(c sqldb.Conn) error {
		err := c.Query(`select $1::bigint, $2::bigint, $3::bigint, $4::text, $5::bytea, $6::bytea, $7::bigint, (select sum(v) from unnest($8::bigint[]) v),
			cardinality($9::text[]), 7::numeric`, func(r sqldb.Row) error {
			if r.Int(0) != 1 || r.Int(1) != 2 || r.Int(2) != 1 || r.Text(3) != "ä" || string(r.Bytes(4)) != "\x00\xff" || r.Bytes(5) == nil || len(r.Bytes(5)) != 0 ||
				r.Int(6) != 0 || r.Bytes(6) != nil || r.Int(7) != 3 || r.Int(8) != 0 || r.Int(9) != 7 {
				t.Error("a value came back as another")
			}
			_, err := c.Exec("insert into " + table + " (name, value) values ('nested', '')")
			return err
		}, int64(1), 2, true, "ä", []byte{0, 255}, []byte(nil), nil, sqldb.Ints{1, 2}, sqldb.Texts(nil))
		if err != nil {
			return err
		}
		if _, err := c.Exec("select $1", 1.5); err == nil || !strings.Contains(err.Error(), "float64") {
			t.Error(err)
		}
		if err := c.Bulk("select 1", nil, sqldb.Ints{1}, sqldb.Texts{}); err == nil {
			t.Error("columns of different length were taken")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestOtherProcessesAreSeen: polling alone wakes a blocked claim (spec:A8).
func TestOtherProcessesAreSeen(t *testing.T) {
	schema := newSchema(t)
	a, b := open(t, Schema(schema), AutoMigrate()), open(t, Schema(schema))
	defer a.Close()
	defer b.Close()
	ctx := context.Background()
	claimed := make(chan int)
	go func() {
		jobs, err := driver.Of(a).Claim(ctx, driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: 1, Wait: 30 * time.Second})
		if err != nil {
			t.Error(err)
		}
		claimed <- len(jobs)
	}()
	began := time.Now()
	if _, err := b.Enqueue(ctx, sojourn.NewJob("k", nil)); err != nil {
		t.Fatal(err)
	}
	if n := <-claimed; n != 1 || time.Since(began) > 20*time.Second {
		t.Errorf("%d jobs after %v", n, time.Since(began))
	}
}

// TestIdle: a worker that waits uses up no transaction id, which any write would.
func TestIdle(t *testing.T) {
	schema := newSchema(t)
	c := open(t, Schema(schema), AutoMigrate())
	defer c.Close()
	w := worker.New(c, worker.Options{})
	ran := make(chan struct{})
	worker.Handle(w, plain, func(context.Context, *sojourn.Job, int) error { close(ran); return nil })
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- w.Run(ctx) }()
	e, err := c.Enqueue(ctx, plain.New(1))
	if err != nil {
		t.Fatal(err)
	}
	<-ran
	if _, err := c.Wait(ctx, e.ID); err != nil {
		t.Fatal(err)
	}
	var used []int64
	for range 4 { // the server's own work may use some
		before := nextTransaction(t)
		time.Sleep(2500 * time.Millisecond) // nothing to wait for: the point is that nothing happens
		if used = append(used, nextTransaction(t)-before); used[len(used)-1] == 0 {
			break
		}
	}
	if used[len(used)-1] != 0 {
		t.Errorf("transactions that wrote in 2.5 s of idleness, four times: %v", used)
	}
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func nextTransaction(t *testing.T) (n int64) {
	t.Helper()
	d, err := openDB(context.Background(), testURL(t), testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.View(context.Background(), func(c sqldb.Conn) error {
		return c.Query("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint", func(r sqldb.Row) error { n = r.Int(0); return nil })
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDeclaredQueues: spec:A9. With the option a job cannot make a queue by a typing mistake.
func TestDeclaredQueues(t *testing.T) {
	c := open(t, Schema(emptySchema(t)), AutoMigrate(), DeclaredQueues())
	defer c.Close()
	job := sojourn.NewJob("k", nil, sojourn.Queue("paymets"))
	if _, err := c.Enqueue(t.Context(), job); !errors.Is(err, sojourn.ErrNotFound) {
		t.Error(err)
	}
	if err := c.Queues().Set(t.Context(), "payments", sojourn.QueueSettings{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(t.Context(), sojourn.NewJob("k", nil, sojourn.Queue("payments"))); err != nil {
		t.Error(err)
	}
	if queues, err := c.Store().Queues(t.Context()); err != nil || len(queues) != 1 {
		t.Error(queues, err)
	}
}

package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
)

// faulty is a DB that injects faults between the store and the database. Everything else is the
// real database.
type faulty struct {
	*DB
	before func()               // a transaction begins
	after  func()               // a transaction has been committed or rolled back
	refuse func(q string) error // an insert of many rows
}

type faultyConn struct {
	sqldb.Conn
	f *faulty
}

func (f *faulty) Update(ctx context.Context, fn func(sqldb.Conn) error) error {
	if f.before != nil {
		f.before()
	}
	err := f.DB.Update(ctx, func(c sqldb.Conn) error { return fn(faultyConn{c, f}) })
	if f.after != nil {
		f.after()
	}
	return err
}

func (c faultyConn) Bulk(q string, hit func(int64), first sqldb.Ints, more ...sqldb.Column) error {
	for _, column := range more {
		for i := range column.Len() {
			b, ok := column.At(i).([]byte)
			if ok && c.f.refuse != nil {
				if err := c.f.refuse(string(b)); err != nil {
					return err
				}
			}
		}
	}
	return c.Conn.Bulk(q, hit, first, more...)
}

func openFaulty(t *testing.T) (*faulty, *sojourn.Client) {
	t.Helper()
	o, err := newOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := openDB(filepath.Join(t.TempDir(), "faulty.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := migration.Up(context.Background(), db, defaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	f := &faulty{DB: db}
	s, err := sqlstore.New(context.Background(), f, sqlstore.Config{Prefix: defaultPrefix, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return f, sojourn.NewClient(s)
}

// TestClaimOfACallerThatIsGone: rules:A3. The claim is executed, and its caller has ended
// meanwhile: the lease is given back at once, and no crash is counted.
func TestClaimOfACallerThatIsGone(t *testing.T) {
	f, c := openFaulty(t)
	e, err := c.Enqueue(context.Background(), sojourn.NewJob("k", nil))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.after = cancel
	jobs, err := driver.Of(c).Claim(ctx, driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: 1})
	if !errors.Is(err, context.Canceled) || len(jobs) != 0 {
		t.Fatal(jobs, err)
	}
	j, err := c.Get(context.Background(), e.ID)
	if err != nil || j.State != sojourn.Ready || j.Crashes != 0 || j.Epoch != 1 {
		t.Fatalf("%+v %v", j, err)
	}
}

// TestOneFailureInAGroup: several calls share a transaction and one of them fails in the middle of
// it: it fails alone, the others are stored.
func TestOneFailureInAGroup(t *testing.T) {
	f, c := openFaulty(t)
	if _, err := c.Reserve(context.Background(), 10); err != nil {
		t.Fatal(err)
	}
	f.refuse = func(args string) error {
		if strings.Contains(args, "poison") {
			return errors.New("the database does not like this row")
		}
		return nil
	}
	gate, began := make(chan struct{}), make(chan struct{}, 100)
	f.before = func() { began <- struct{}{}; <-gate }
	args := []string{"first", "a", "poison", "b", "c"}
	errs := make([]error, len(args))
	var group sync.WaitGroup
	for i, a := range args {
		group.Go(func() { _, errs[i] = c.Enqueue(context.Background(), sojourn.NewJob("k", []byte(strconv.Quote(a)))) })
		if i == 0 {
			<-began // the others wait behind this commit and then share one
		}
	}
	time.Sleep(50 * time.Millisecond) // lets them queue up; if one comes later, the test is only weaker
	close(gate)
	group.Wait()
	for i, a := range args {
		if failed := errs[i] != nil; failed != (a == "poison") {
			t.Errorf("%s: %v", a, errs[i])
		}
	}
	if sojourn.ErrorCode(errs[2]) != sojourn.CodeUnavailable {
		t.Error(errs[2])
	}
	jobs, err := c.Store().Find(context.Background(), sojourn.Filter{})
	if err != nil || len(jobs) != 4 {
		t.Errorf("%d jobs stored, %v", len(jobs), err)
	}
}

// TestDeclaredQueues: spec:A9. With the option a job cannot make a queue by a typing mistake.
func TestDeclaredQueues(t *testing.T) {
	c, err := Open(":memory:", DeclaredQueues())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	job := sojourn.NewJob("k", nil, sojourn.Queue("paymets"))
	if _, err := c.Enqueue(ctx, job); !errors.Is(err, sojourn.ErrNotFound) || !strings.Contains(err.Error(), "paymets") {
		t.Fatal(err)
	}
	if err := c.Queues().Set(ctx, "payments", sojourn.QueueSettings{}); err != nil {
		t.Fatal(err)
	}
	if e, err := c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Queue("payments"))); err != nil || e.State != sojourn.Ready {
		t.Fatal(e, err)
	}
	queues, err := c.Store().Queues(ctx)
	if err != nil || len(queues) != 1 {
		t.Fatal(queues, err)
	}
}

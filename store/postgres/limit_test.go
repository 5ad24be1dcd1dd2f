package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gatedtest"
)

// TestLimitOnNodes runs three processes of eight workers on one queue with a limit and groups. It
// kills them in turn with kill -9, lowers and raises the limit, and cancels jobs that run or await.
// Meanwhile it sums the weight in flight as other transactions see it: after every commit (inv:T1,
// inv:T2, spec:K2, spec:K4). In the end the doctor checks the ledger. SOJOURN_LIMIT_JOBS sets the
// number of jobs.
func TestLimitOnNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("runs and kills processes for a while")
	}
	n := number("SOJOURN_LIMIT_JOBS", 200)
	schema := newSchema(t)
	c := open(t, Schema(schema), AutoMigrate())
	defer c.Close()
	ctx := context.Background()
	const limit, groupLimit = 7, 4
	set := func(q sojourn.QueueSettings) {
		t.Helper()
		if err := c.Queues().Set(ctx, "default", q); err != nil {
			t.Fatal(err)
		}
	}
	set(sojourn.QueueSettings{Limit: limit, GroupLimit: groupLimit})
	for i := 0; i < n; i += 100 {
		jobs := make([]*sojourn.Job, 100)
		for k := range jobs {
			options := []sojourn.Option{sojourn.Weight(int32(k % 4)), sojourn.Group(fmt.Sprint("g", k%5))}
			if jobs[k] = plain.New(k, options...); k%2 == 0 {
				jobs[k] = asks.New(k, append(options, sojourn.Key(fmt.Sprint("order ", i+k)))...)
			}
		}
		if _, err := c.EnqueueAll(ctx, jobs...); err != nil {
			t.Fatal(err)
		}
	}
	w := &witness{runs: map[sojourn.ID]map[int64]span{}}
	kills, stops := [3]func(){}, [3]func() error{}
	for i := range kills {
		kills[i], stops[i] = w.node(t, schema)
	}
	watch := newFlightWatch(t, schema, limit, groupLimit)
	deadline := time.Now().Add(4*time.Minute + time.Duration(n)*50*time.Millisecond)
	kill := time.Now().Add(2 * time.Second)
	for live := n; live > 0; live = countLive(t, c, n) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d jobs are still live", live, n)
		}
		for range 50 {
			watch.look()
		}
		if (time.Now().After(kill) || w.kills == 0 && live < n*2/3) && live > n/20 { // the first in the middle of the work, however quick that is
			i := rand.IntN(len(kills))
			kills[i]()
			kills[i], stops[i] = w.node(t, schema)
			kill = time.Now().Add(time.Duration(2000+rand.IntN(2000)) * time.Millisecond)            // a random instant
			set(sojourn.QueueSettings{Limit: limit - 3*int64(rand.IntN(2)), GroupLimit: groupLimit}) // lower for a while, never higher
			cancelOne(t, c, sojourn.State(rand.IntN(2))+sojourn.Running)
		}
	}
	for _, stop := range stops {
		if err := stop(); err != nil {
			t.Error("a node ended by itself:", err)
		}
	}
	if found, err := c.Store().(driver.Checker).Check(ctx); err != nil || len(found) > 0 {
		t.Errorf("doctor: %v %v", found, err)
	}
	if w.kills == 0 || watch.most < limit {
		t.Errorf("the test shows nothing: %d kills, at most %d in flight", w.kills, watch.most)
	}
	t.Logf("%d jobs, %d kill -9, %d sums, at most %d in flight of %d", n, w.kills, watch.sums, watch.most, limit)
}

// cancelOne cancels a job of a state, if there is one.
func cancelOne(t *testing.T, c *sojourn.Client, state sojourn.State) {
	t.Helper()
	_, err := c.Store().Edit(context.Background(), sojourn.Filter{Queue: "default", States: []sojourn.State{state}, Limit: 1}, sojourn.Edit{Action: sojourn.EditCancel})
	if err != nil && sojourn.ErrorCode(err) != sojourn.CodeConflict {
		t.Error(err)
	}
}

// TestRepairOfTheLedger: while jobs start and end, a repair corrects wrong counts of the weight in
// flight, and counts no concurrent change twice. inv:T2
func TestRepairOfTheLedger(t *testing.T) {
	schema := newSchema(t)
	c := open(t, Schema(schema), AutoMigrate())
	defer c.Close()
	gatedtest.Mislay(t, c, func(sql string) { pgtest.SQL(t, testURL(t), "set search_path to "+schema+"; "+sql) })
}

// flightWatch sums the weight in flight.
type flightWatch struct {
	t                       *testing.T
	conn                    *pgx.Conn
	limit, groupLimit, most int64
	sums                    int
}

func newFlightWatch(t *testing.T, schema string, limit, groupLimit int64) *flightWatch {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(context.Background(), "set search_path to "+schema); err != nil {
		t.Fatal(err)
	}
	return &flightWatch{t: t, conn: conn, limit: limit, groupLimit: groupLimit}
}

func (w *flightWatch) look() {
	w.t.Helper()
	rows, err := w.conn.Query(context.Background(), `select j.grp, sum(l.held)::bigint, count(*) from sj_live l join sj_job j on j.id = l.id
		where l.held > 0 group by j.grp`)
	if err != nil {
		w.t.Fatal(err)
	}
	var group string
	var held, jobs, sum int64
	if _, err := pgx.ForEachRow(rows, []any{&group, &held, &jobs}, func() error {
		if sum += held; held > w.groupLimit && jobs > 1 {
			w.t.Errorf("group %s has %d in flight of %d", group, held, w.groupLimit)
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	if sum > w.limit {
		w.t.Errorf("%d in flight of %d", sum, w.limit)
	}
	w.most, w.sums = max(w.most, sum), w.sums+1
}

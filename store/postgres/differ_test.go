package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// twins are two stores that get the same calls, one on SQLite and one on PostgreSQL, with one
// clock.
type twins struct {
	*testing.T
	ctx    context.Context
	stores [2]driver.Store
	dice   *rand.Rand
	clock  struct {
		sync.Mutex
		at time.Time
	}
	ids    []sojourn.ID
	leased time.Time          // when the ids were drawn
	jobs   []sojourn.Job      // some that were enqueued, to repeat
	steps  []twinStep         // some that were given, standing or not
	tokens [][2]string        // of the same job in each store
	claims map[string]int64   // worker → number of its last claim
	asked  []sojourn.Response // some responses, to repeat
	last   driver.ClaimRequest
	tally  map[string]int
}

// twinStep is the same step in each store.
type twinStep struct {
	lease   [2]sojourn.Lease
	purpose sojourn.Purpose
}

const (
	differWorkers = 4
	differKeys    = 12
)

// number reads a test's size from the environment.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// TestTwins makes the same random calls to a store on SQLite and to one on PostgreSQL and compares
// every answer, and the visible state afterwards (spec:A8). SOJOURN_TWINS sets the number of
// operations, SOJOURN_SEED the seed.
func TestTwins(t *testing.T) {
	t.Parallel()
	ops := number("SOJOURN_TWINS", 2000)
	seed := uint64(number("SOJOURN_SEED", int(rand.Uint32())))
	w := &twins{T: t, ctx: context.Background(), dice: rand.New(rand.NewPCG(seed, 0)), claims: map[string]int64{}, tally: map[string]int{}}
	w.clock.at = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	now := func() time.Time { w.clock.Lock(); defer w.clock.Unlock(); return w.clock.at }
	lite, err := sqlite.Open(":memory:", sqlite.Clock(now), sqlite.InboxTTL(time.Hour), sqlite.MaxBytes(1000))
	if err != nil {
		t.Fatal(err)
	}
	defer lite.Close()
	big := open(t, Clock(now), InboxTTL(time.Hour), MaxBytes(1000), Schema(newSchema(t)), AutoMigrate())
	defer big.Close()
	w.stores = [2]driver.Store{driver.Of(lite), driver.Of(big)}
	for n := range ops {
		w.step(n)
		w.compare(fmt.Sprintf("the newest after operation %d", n), w.newest)
		if n%200 == 0 || n == ops-1 {
			w.compare(fmt.Sprintf("everything after operation %d", n), w.everything)
		}
		if t.Failed() {
			t.Fatalf("seed %d, operation %d", seed, n)
		}
	}
	for range 20 { // the doctor would report overdue jobs
		w.sweep()
	}
	for i, s := range w.stores {
		if found, err := s.(driver.Checker).Check(w.ctx); err != nil || len(found) > 0 {
			t.Errorf("doctor of store %d: %v %v", i, found, err)
		}
	}
	t.Logf("seed %d: %d operations, 0 differences: %v", seed, ops, w.tally)
}

// compare makes the same call to both stores and wants the same answer.
func (w *twins) compare(what string, ask func(s driver.Store, side int) any) {
	w.Helper()
	var texts [2]string
	for i, s := range w.stores {
		b, err := json.Marshal(ask(s, i))
		if err != nil {
			w.Fatal(err)
		}
		texts[i] = string(b)
	}
	if a, b := texts[0], texts[1]; a != b {
		k := 0
		for k < min(len(a), len(b)) && a[k] == b[k] {
			k++
		}
		from := max(k-300, 0)
		w.Errorf("%s differ at byte %d:\nsqlite   …%.600s\npostgres …%.600s", what, k, a[from:], b[from:])
	}
}

// told is an answer with its error as text, without the random values of each store.
func told(answer any, err error) any {
	if claimed, ok := answer.([]driver.Claimed); ok {
		for i := range claimed {
			claimed[i].Job = masked(claimed[i].Job)
		}
	}
	if jobs, ok := answer.([]sojourn.Job); ok {
		for i := range jobs {
			jobs[i] = masked(jobs[i])
		}
	}
	return []any{answer, fmt.Sprint(err)}
}

func masked(j sojourn.Job) sojourn.Job {
	j.Instance, j.Token = "", ""
	return j
}

func errorTexts(errs []error) (texts []string) {
	for _, err := range errs {
		texts = append(texts, fmt.Sprint(err))
	}
	return texts
}

func (w *twins) newest(s driver.Store, _ int) any {
	jobs, err1 := s.Find(w.ctx, sojourn.Filter{Newest: true, Limit: 60, Full: true})
	inbox, err2 := s.Inbox(w.ctx, sojourn.InboxFilter{Limit: 30})
	queues, err3 := s.Queues(w.ctx)
	return []any{told(jobs, err1), told(inbox, err2), told(queues, err3)}
}

func (w *twins) everything(s driver.Store, _ int) any {
	var all []any
	for after := ""; ; {
		jobs, err := s.Find(w.ctx, sojourn.Filter{After: after, Limit: 500, Full: true})
		for _, j := range jobs {
			history, err1 := s.History(w.ctx, j.ID, 0, sojourn.MaxFind)
			lines, err2 := s.Log(w.ctx, j.ID)
			all = append(all, masked(j), told(history, err1), told(lines, err2))
			after = j.ID.String()
		}
		if len(jobs) < 500 {
			inbox, err2 := s.Inbox(w.ctx, sojourn.InboxFilter{Limit: sojourn.MaxFind})
			return append(all, err, told(inbox, err2))
		}
	}
}

// step is one operation.
func (w *twins) step(n int) {
	kinds := []struct {
		name   string
		chance int
		do     func()
	}{
		{"enqueue", 18, w.enqueue}, {"claim", 20, w.claim}, {"finish", 22, w.finish}, {"respond", 14, w.respond}, {"save", 5, w.save},
		{"extend", 3, w.extend}, {"edit", 7, w.edit}, {"inbox", 5, w.editInbox}, {"queue", 1, w.queue}, {"sweep", 4, w.sweep}, {"time", 6, w.time},
	}
	sum := 0
	for _, k := range kinds {
		sum += k.chance
	}
	pick := w.dice.IntN(sum)
	for _, k := range kinds {
		if pick -= k.chance; pick < 0 {
			w.tally[k.name]++
			k.do()
			return
		}
	}
}

func (w *twins) chance(percent int) bool { return w.dice.IntN(100) < percent }

func oneOf[T any](w *twins, list ...T) T { return list[w.dice.IntN(len(list))] }

func (w *twins) key() string  { return fmt.Sprint("key ", w.dice.IntN(differKeys)) }
func (w *twins) kind() string { return oneOf(w, "charge", "mail") }
func (w *twins) line() string { return oneOf(w, "default", "slow") }
func (w *twins) text() string {
	return oneOf(w, "", "a", "ä€", "nul\x00", "\xff\xfe no text", `"quoted"`, "$1 ?", "timeout")
}

func (w *twins) time() {
	w.clock.Lock()
	w.clock.at = w.clock.at.Add(oneOf(w, time.Microsecond, time.Second, 7*time.Second, 31*time.Second, 5*time.Minute, 20*time.Minute, 2*time.Hour))
	w.clock.Unlock()
}

// id draws an id; blocks are drawn from both stores.
func (w *twins) id() sojourn.ID {
	if len(w.ids) == 0 || w.clock.at.Sub(w.leased) > sojourn.IDLife-time.Minute {
		n := 20 + w.dice.IntN(30)
		var first sojourn.ID
		w.compare("IDs", func(s driver.Store, _ int) any {
			var err error
			first, err = s.IDs(w.ctx, n)
			return told(first, err)
		})
		w.ids, w.leased = w.ids[:0], w.clock.at
		for i := range n {
			w.ids = append(w.ids, first+sojourn.ID(i))
		}
	}
	id := w.ids[0]
	w.ids = w.ids[1:]
	return id
}

func keep[T any](w *twins, list []T, v T) []T {
	if len(list) < 40 {
		return append(list, v)
	}
	list[w.dice.IntN(len(list))] = v
	return list
}

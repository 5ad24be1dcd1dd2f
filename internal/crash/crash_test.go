package crash

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// ledger holds the reports that the parent got from all its children.
type ledger struct {
	mu       sync.Mutex // guards the fields below
	acked    map[sojourn.ID]bool
	answered map[string]bool
	started  map[string]bool               // workflows
	runs     map[sojourn.ID]map[int64]bool // job → epochs in which a handler was started

	opened func() // called when the child has opened its store
}

func newLedger() *ledger {
	return &ledger{acked: map[sojourn.ID]bool{}, answered: map[string]bool{}, started: map[string]bool{}, runs: map[sojourn.ID]map[int64]bool{}}
}

func (l *ledger) ackedJobs() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// hear reads whole lines until the child is gone.
func (l *ledger) hear(from io.Reader) {
	r := bufio.NewReader(from)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return // the rest, if any, is a torn line
		}
		l.note(strings.Fields(line))
	}
}

func (l *ledger) note(words []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	number := func(i int) int64 { n, _ := strconv.ParseInt(words[i], 10, 64); return n }
	switch words[0] {
	case "opened":
		l.opened()
	case "ack":
		l.acked[sojourn.ID(number(1))] = true
	case "answered":
		l.answered[words[1]] = true
	case "started":
		l.started[words[1]] = true
	case "run":
		id := sojourn.ID(number(1))
		if l.runs[id] == nil {
			l.runs[id] = map[int64]bool{}
		}
		l.runs[id][number(2)] = true
	}
}

// run starts a child and kills it a while after it has opened its store, sometimes after its start;
// 0 lets it end by itself. On a busy machine a child takes longer to open than it lives after that.
func (l *ledger) run(t *testing.T, mode, file string, kill time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SOJOURN_CRASH_CHILD="+mode, "SOJOURN_CRASH_FILE="+file)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = proctest.Start(cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	limit := kill
	if kill == 0 {
		limit = 2 * time.Minute
	}
	fromStart := kill == 0 || mode == childChains || rand.IntN(4) == 0
	if !fromStart {
		limit = time.Minute
	}
	timer := time.AfterFunc(limit, func() { cmd.Process.Kill() }) // SIGKILL
	l.opened = func() {
		if !fromStart {
			timer.Reset(kill)
		}
	}
	l.hear(out)
	err = cmd.Wait()
	if timer.Stop() || kill == 0 {
		if err != nil {
			t.Fatalf("child %s ended by itself: %v\n%s", mode, err, stderr.String())
		}
	}
}

// remains counts the violations found after all kills.
type remains struct{ lost, stuck, lostAnswers, unexplained int }

func (l *ledger) audit(t *testing.T, file string) (r remains) {
	t.Helper()
	ctx := context.Background()
	c, err := open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stored := map[sojourn.ID]sojourn.State{}
	for j, err := range c.Jobs().All(ctx, sojourn.Filter{Limit: sojourn.MaxFind}) {
		if err != nil {
			t.Fatal(err)
		}
		if stored[j.ID] = j.State; j.State != sojourn.Completed {
			r.stuck++
			t.Logf("job %d is %s: %s %s", j.ID, j.State, j.Reason, j.Error)
		}
	}
	for id := range l.acked {
		if stored[id] == 0 {
			r.lost++
		}
	}
	r.lostAnswers = len(l.answered) - l.count(t, c)
	for id, epochs := range l.runs {
		r.unexplained += unexplained(t, c, id, epochs)
	}
	found, err := c.Store().(driver.Checker).Check(ctx)
	if err != nil || len(found) > 0 {
		t.Errorf("doctor: %v %v", found, err)
	}
	return r
}

// count returns the number of acknowledged responses in the inbox.
func (l *ledger) count(t *testing.T, c *sojourn.Client) (n int) {
	t.Helper()
	for r, err := range c.Inbox().All(context.Background(), sojourn.InboxFilter{Limit: sojourn.MaxFind}) {
		if err != nil {
			t.Fatal(err)
		}
		if l.answered[r.MessageID] {
			n++
		}
	}
	return n
}

// unexplained counts runs of a handler whose lease has no end in the history.
func unexplained(t *testing.T, c *sojourn.Client, id sojourn.ID, epochs map[int64]bool) int {
	t.Helper()
	history, err := c.Jobs().History(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	ended := map[int64]bool{}
	for _, a := range history {
		ended[a.Epoch] = true
	}
	n := 0
	for e := range epochs {
		if !ended[e] {
			n++
		}
	}
	return n
}

func cycles(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("SOJOURN_CRASH_CYCLES"))
	if err != nil || n < 1 {
		n = 8
	}
	if testing.Short() {
		n = min(n, 3)
	}
	return n
}

// TestKill kills a process that enqueues, works and answers at a random instant, again and again
// (inv:A1, inv:L2, spec:L8, spec:S8). What it had acknowledged is stored, every job gets to its
// end, and a job runs twice only where its lease had ended.
func TestKill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "crash.db")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	l := newLedger()
	n := cycles(t)
	for range n {
		l.run(t, childWorks, file, time.Duration(5+random.IntN(495))*time.Millisecond+startUp)
	}
	l.run(t, childDrains, file, 0)
	r := l.audit(t, file)
	t.Logf("%d kill -9 cycles, %d jobs and %d answers acknowledged: %d and %d lost, %d stuck, %d runs unexplained",
		n, len(l.acked), len(l.answered), r.lost, r.lostAnswers, r.stuck, r.unexplained)
	if r != (remains{}) {
		t.Errorf("%+v", r)
	}
	if len(l.acked) < n || len(l.answered) == 0 {
		t.Errorf("only %d jobs and %d answers were acknowledged: the test shows nothing", len(l.acked), len(l.answered))
	}
}

// TestKillControl is the control arm: a child that acknowledges before the commit must lose jobs,
// else TestKill could not fail.
func TestKillControl(t *testing.T) {
	file := filepath.Join(t.TempDir(), "crash.db")
	l := newLedger()
	for range 20 {
		l.run(t, childAckEarly, file, time.Duration(50+rand.IntN(100))*time.Millisecond+startUp)
		if lost := l.lost(t, file); lost > 0 {
			t.Logf("%d of %d early acknowledged jobs lost", lost, len(l.acked))
			return
		}
	}
	t.Errorf("acknowledging %d jobs before the commit lost none", len(l.acked))
}

// startUp is about what the child needs before it does anything.
const startUp = 30 * time.Millisecond

func (l *ledger) lost(t *testing.T, file string) (n int) {
	t.Helper()
	c, err := open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ids := make([]sojourn.ID, 0, len(l.acked))
	for id := range l.acked {
		ids = append(ids, id)
	}
	for len(ids) > 0 {
		page := ids[:min(len(ids), sojourn.MaxFind)]
		ids = ids[len(page):]
		found, err := c.Store().Find(context.Background(), sojourn.Filter{IDs: page, Limit: sojourn.MaxFind})
		if err != nil {
			t.Fatal(err)
		}
		n += len(page) - len(found)
	}
	return n
}

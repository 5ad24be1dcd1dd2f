package postgres

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// span is one run of a handler, as its process has told. The clock is the machine's, the same for
// all.
type span struct{ began, ended int64 } // microseconds; ended is 0 if its process was killed before it

// witness collects the reports of all nodes in the parent process.
type witness struct {
	mu       sync.Mutex // guards the fields below
	runs     map[sojourn.ID]map[int64]span
	answered []string
	kills    int
}

// hear reads whole lines until a node is gone.
func (w *witness) hear(from io.Reader) {
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadString('\n')
		if err != nil {
			return // the rest, if any, is torn
		}
		w.note(strings.Fields(text))
	}
}

func (w *witness) note(words []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if words[0] == "answered" {
		w.answered = append(w.answered, strings.Join(words[1:], " "))
		return
	}
	var id, epoch, at int64
	fmt.Sscan(strings.Join(words[1:], " "), &id, &epoch, &at)
	if w.runs[sojourn.ID(id)] == nil {
		w.runs[sojourn.ID(id)] = map[int64]span{}
	}
	s := w.runs[sojourn.ID(id)][epoch]
	if words[0] == "run" {
		s.began = at
	} else {
		s.ended = at
	}
	w.runs[sojourn.ID(id)][epoch] = s
}

// node starts a process. kill is kill -9, stop requests its end.
func (w *witness) node(t *testing.T, schema string) (kill func(), stop func() error) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SOJOURN_TEST_NODE="+schema, "SOJOURN_TEST_POSTGRES="+testURL(t))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := proctest.Start(cmd); err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{})
	go func() { w.hear(out); close(heard) }()
	return func() {
			cmd.Process.Kill()
			<-heard
			cmd.Wait()
			w.kills++
		}, func() error {
			in.Close()
			<-heard
			if err := cmd.Wait(); err != nil {
				return fmt.Errorf("%w: %s", err, stderr.String())
			}
			return nil
		}
}

// TestNodes runs three processes of eight workers on one database and kills one after the other
// with kill -9, while they work on jobs with keys, weights, waits and answers (inv:A1, inv:F1,
// inv:L7, spec:L8, spec:B6). In the end every job is completed, no answer that was acknowledged is
// lost, no two steps of a job have overlapped, and the doctor finds nothing. SOJOURN_NODES_JOBS
// sets the number of jobs.
func TestNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("runs and kills processes for a while")
	}
	n := number("SOJOURN_NODES_JOBS", 2000)
	schema := newSchema(t)
	c := open(t, Schema(schema), AutoMigrate())
	defer c.Close()
	w := &witness{runs: map[sojourn.ID]map[int64]span{}}
	enqueued := make(chan error, 1)
	go func() { enqueued <- enqueueMany(c, n) }()
	kills, stops := [3]func(){}, [3]func() error{}
	for i := range kills {
		kills[i], stops[i] = w.node(t, schema)
	}
	began := time.Now()
	for live, least, moved := n, n, began; live > 0; live = countLive(t, c, n) {
		if live < least {
			least, moved = live, time.Now()
		}
		if time.Since(moved) > 2*time.Minute { // however slow the machine is, something must go on
			t.Fatalf("%d of %d jobs are still live, and none has become final for two minutes", live, n)
		}
		time.Sleep(time.Duration(200+rand.IntN(600)) * time.Millisecond) // a random instant for the kill
		i := rand.IntN(len(kills))
		kills[i]()
		kills[i], stops[i] = w.node(t, schema)
		if live < n/20 { // let the last ones end
			time.Sleep(3 * time.Second)
		}
	}
	if err := <-enqueued; err != nil {
		t.Fatal(err)
	}
	for _, stop := range stops {
		if err := stop(); err != nil {
			t.Error("a node ended by itself:", err)
		}
	}
	w.audit(t, c, n)
	t.Logf("from the first to the last job: %v", time.Since(began).Round(time.Second))
}

// enqueueMany stores the jobs in batches, as producers do.
func enqueueMany(c *sojourn.Client, n int) error {
	var jobs []*sojourn.Job
	for i := range n {
		weight := sojourn.Weight(int32(i % 4))
		switch i % 5 {
		case 0, 1:
			jobs = append(jobs, plain.New(i, weight))
		case 2:
			jobs = append(jobs, asks.New(i, weight, sojourn.Key(fmt.Sprint("order ", i))))
		case 3:
			jobs = append(jobs, late.New(i, weight))
		case 4:
			jobs = append(jobs, direct.New(i, weight))
		}
		if len(jobs) == 100 || i == n-1 {
			if _, err := c.EnqueueAll(context.Background(), jobs...); err != nil {
				return err
			}
			jobs = nil
		}
	}
	return nil
}

// countLive counts the jobs of n that are not final, including those that are not enqueued yet.
func countLive(t *testing.T, c *sojourn.Client, n int) int {
	t.Helper()
	queues, err := c.Store().Queues(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		for state, count := range q.Counts {
			if state.Final() {
				n -= int(count)
			}
		}
	}
	return n
}

func (w *witness) audit(t *testing.T, c *sojourn.Client, n int) {
	t.Helper()
	ctx := context.Background()
	completed := 0
	for j, err := range c.Jobs().All(ctx, sojourn.Filter{Limit: sojourn.MaxFind}) {
		if err != nil {
			t.Fatal(err)
		}
		if j.State == sojourn.Completed {
			completed++
		} else {
			t.Errorf("job %d is %s: %s %s", j.ID, j.State, j.Reason, j.Error)
		}
	}
	if completed != n {
		t.Errorf("%d of %d jobs are completed", completed, n)
	}
	steps, overlaps := w.overlaps(t)
	lost := w.lostAnswers(t, c)
	if lost > 0 || overlaps > 0 {
		t.Errorf("%d acknowledged answers are lost, %d pairs of steps overlap", lost, overlaps)
	}
	if w.kills == 0 || len(w.answered) == 0 {
		t.Error("the test shows nothing")
	}
	if found, err := c.Store().(driver.Checker).Check(ctx); err != nil || len(found) > 0 {
		t.Errorf("doctor: %v %v", found, err)
	}
	t.Logf("%d jobs, %d completed, %d kill -9, %d steps, %d overlap, %d answers acknowledged, %d lost", n, completed, w.kills, steps, overlaps, len(w.answered), lost)
}

// overlaps counts steps that began before an earlier one of their job had ended.
func (w *witness) overlaps(t *testing.T) (steps, overlaps int) {
	t.Helper()
	for id, spans := range w.runs {
		steps += len(spans)
		for a, first := range spans {
			for b, second := range spans {
				if a < b && second.began > 0 && second.began < max(first.began, first.ended) {
					overlaps++
					t.Logf("job %d: epoch %d ran %+v, epoch %d %+v", id, a, first, b, second)
				}
			}
		}
	}
	return steps, overlaps
}

// lostAnswers counts acknowledged answers that are not in the inbox.
func (w *witness) lostAnswers(t *testing.T, c *sojourn.Client) int {
	t.Helper()
	stored := map[string]bool{}
	for r, err := range c.Inbox().All(context.Background(), sojourn.InboxFilter{Limit: sojourn.MaxFind}) {
		if err != nil {
			t.Fatal(err)
		}
		stored[r.MessageID] = true
	}
	lost := 0
	for _, id := range w.answered {
		if !stored[id] {
			lost++
		}
	}
	return lost
}

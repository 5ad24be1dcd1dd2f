package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// image contains the minimum that survives a power cut: the files at the beginning of the newest
// fsync.
type image struct {
	path string

	mu        sync.Mutex // guards the fields below
	file, log []byte
}

// take copies the present contents of the files into the image.
func (m *image) take() error {
	file, err1 := os.ReadFile(m.path)
	log, err2 := os.ReadFile(m.path + "-wal")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.file, m.log = file, log
	return nil
}

// sync is an fsync of the log that also updates the image.
func (m *image) sync(f *os.File) error { return errors.Join(m.take(), f.Sync()) }

// open opens a copy of the image, as the machine does after the power cut.
func (m *image) open(t *testing.T) *sojourn.Client {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	path := fileTest(t)
	if err := errors.Join(os.WriteFile(path, m.file, 0o600), os.WriteFile(path+"-wal", m.log, 0o600)); err != nil {
		t.Fatal(err)
	}
	return openSynced(t, path, (*os.File).Sync)
}

func openSynced(t *testing.T, path string, sync func(*os.File) error, list ...Option) *sojourn.Client {
	t.Helper()
	c, err := openWith(path, sync, list...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func openWith(path string, sync func(*os.File) error, list ...Option) (*sojourn.Client, error) {
	return Open(path, append(list, func(o *options) { o.sync = sync })...)
}

// act is a commit of one process without its fsync.
type act struct {
	Op           string
	ID           sojourn.ID
	Key, Message string
	Lease        sojourn.Lease

	path string
}

func (a act) do(ctx context.Context, c *sojourn.Client) (err error) {
	switch a.Op {
	case "enqueue":
		j := sojourn.NewJob("k", nil, sojourn.Key(a.Key))
		j.ID = a.ID
		_, err = c.Enqueue(ctx, j)
	case "finish":
		_, err = driver.Of(c).Finish(ctx, []sojourn.Outcome{{Lease: a.Lease, Type: sojourn.OutcomeCompleted}})
	case "respond":
		_, err = c.Respond(ctx, &sojourn.Response{Kind: "k", Key: a.Key, MessageID: a.Message})
	case "cancel":
		err = c.As("test").Cancel(ctx, a.ID, "")
	default:
		err = fmt.Errorf("no act is called %q", a.Op)
	}
	return err
}

// actChild opens the store and prints "ready". After a line of input it acts; its fsync never
// returns, and prints "committed".
func actChild(path, encoded string) error {
	var a act
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return err
	}
	var hold atomic.Bool
	c, err := openWith(path, func(f *os.File) error {
		if hold.Load() {
			fmt.Println("committed")
			select {}
		}
		return f.Sync()
	})
	if err != nil {
		return err
	}
	if _, err := c.Store().Find(context.Background(), sojourn.Filter{}); err != nil {
		return err
	}
	fmt.Println("ready")
	bufio.NewScanner(os.Stdin).Scan()
	hold.Store(true)
	return errors.Join(a.do(context.Background(), c), errors.New("the act was answered without an fsync"))
}

// An acknowledgement is an answer of one process that depends on a commit of another one.
type acknowledgement struct {
	name    string
	prepare func(ctx context.Context, c *sojourn.Client) (act, error) // in the other process
	answer  func(ctx context.Context, c *sojourn.Client, a act) error // nil if the answer shows the commit of the other one
	kept    func(ctx context.Context, c *sojourn.Client, a act) error // nil if the commit is there after the power cut
}

func running(ctx context.Context, c *sojourn.Client) (act, error) {
	if _, err := c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Key("key"))); err != nil {
		return act{}, err
	}
	jobs, err := driver.Of(c).Claim(ctx, driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: 1})
	if err != nil || len(jobs) != 1 {
		return act{}, fmt.Errorf("claimed %d jobs: %w", len(jobs), err)
	}
	return act{Op: "finish", ID: jobs[0].Job.ID, Lease: jobs[0].Lease}, nil
}

func newJob(ctx context.Context, c *sojourn.Client) (act, error) {
	id, err := c.Store().IDs(ctx, 2)
	return act{Op: "enqueue", ID: id, Key: "key"}, err
}

func inState(want sojourn.State) func(context.Context, *sojourn.Client, act) error {
	return func(ctx context.Context, c *sojourn.Client, a act) error {
		j, err := c.Get(ctx, a.ID)
		if err == nil && j.State != want {
			err = fmt.Errorf("job %d is %v, not %v", a.ID, j.State, want)
		}
		return err
	}
}

func expect(ok bool, err error, got any) error {
	if err == nil && !ok {
		err = fmt.Errorf("the answer is %+v", got)
	}
	return err
}

var acknowledgements = []acknowledgement{
	{"enqueue by id", newJob, func(ctx context.Context, c *sojourn.Client, a act) error {
		j := sojourn.NewJob("k", nil, sojourn.Key(a.Key))
		j.ID = a.ID
		e, err := c.Enqueue(ctx, j)
		return expect(e.Duplicate && e.ID == a.ID, err, e)
	}, inState(sojourn.Ready)},
	{"enqueue by key", newJob, func(ctx context.Context, c *sojourn.Client, a act) error {
		j := sojourn.NewJob("k", nil, sojourn.Key(a.Key))
		j.ID = a.ID + 1
		e, err := c.Enqueue(ctx, j)
		return expect(e.Duplicate && e.ID == a.ID, err, e)
	}, inState(sojourn.Ready)},
	{"enqueue in a transaction", newJob, func(ctx context.Context, c *sojourn.Client, a act) error {
		db, err := sql.Open("sqlite", "file:"+a.path+"?_txlock=immediate")
		if err != nil {
			return err
		}
		defer db.Close()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		e, err := EnqueueTx(ctx, c, tx, sojourn.NewJob("k", nil, sojourn.Key(a.Key)))
		return errors.Join(expect(err == nil && e[0].Duplicate && e[0].ID == a.ID, err, e), tx.Commit())
	}, inState(sojourn.Ready)},
	{"get", newJob, inState(sojourn.Ready), inState(sojourn.Ready)},
	{"get by key", newJob, func(ctx context.Context, c *sojourn.Client, a act) error {
		j, err := c.GetByKey(ctx, a.Key, "k")
		return expect(err == nil && j.ID == a.ID, err, j)
	}, inState(sojourn.Ready)},
	{"finish", running, func(ctx context.Context, c *sojourn.Client, a act) error {
		f, err := driver.Of(c).Finish(ctx, []sojourn.Outcome{{Lease: a.Lease, Type: sojourn.OutcomeCompleted}})
		return expect(err == nil && f[0].Status == driver.FinishRepeated, err, f)
	}, inState(sojourn.Completed)},
	{"get final", running, inState(sojourn.Completed), inState(sojourn.Completed)},
	{"wait", running, func(ctx context.Context, c *sojourn.Client, a act) error {
		j, err := c.Wait(ctx, a.ID)
		return expect(err == nil && j.State == sojourn.Completed, err, j)
	}, inState(sojourn.Completed)},
	{"history", running, func(ctx context.Context, c *sojourn.Client, a act) error {
		h, err := c.Jobs().History(ctx, a.ID)
		return expect(len(h) == 1, err, h)
	}, inState(sojourn.Completed)},
	{"cancel", func(ctx context.Context, c *sojourn.Client) (act, error) {
		a, err := newJob(ctx, c)
		if err == nil {
			err = a.do(ctx, c)
		}
		a.Op = "cancel"
		return a, err
	}, func(ctx context.Context, c *sojourn.Client, a act) error { return c.As("test").Cancel(ctx, a.ID, "") }, inState(sojourn.Cancelled)},
	{"respond", func(context.Context, *sojourn.Client) (act, error) {
		return act{Op: "respond", Key: "key", Message: "m"}, nil
	}, func(ctx context.Context, c *sojourn.Client, a act) error {
		r, err := c.Respond(ctx, &sojourn.Response{Kind: "k", Key: a.Key, MessageID: a.Message})
		return expect(r.Outcome == sojourn.Duplicate, err, r)
	}, func(ctx context.Context, c *sojourn.Client, _ act) error {
		found, err := c.Store().Inbox(ctx, sojourn.InboxFilter{})
		return expect(len(found) == 1, err, found)
	}},
}

// TestAcknowledgedByAnotherProcess: inv:A1. A process commits, and its fsync does not return.
// Another process, started before that or after the first one was killed, answers a call that
// writes nothing and depends on that commit. Then the power is cut: the answer must still be true.
// The control arm is a store that does not wait for the disk, and must lose the commit.
func TestAcknowledgedByAnotherProcess(t *testing.T) {
	for _, a := range acknowledgements {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for name, killed := range map[string]bool{"beside": false, "killed": true} {
				if err := cutAfter(t, a, killed); err != nil {
					t.Errorf("%s: it was acknowledged and is lost: %v", name, err)
				}
				if err := cutAfter(t, a, killed, Relaxed()); err == nil {
					t.Errorf("%s: the control arm lost nothing", name)
				}
			}
		})
	}
}

// cutAfter returns an error if the power cut has lost the acknowledged commit.
func cutAfter(t *testing.T, a acknowledgement, killed bool, list ...Option) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	disk := &image{path: filepath.Join(t.TempDir(), "jobs.db")}
	c := openSynced(t, disk.path, disk.sync, list...)
	todo, err := a.prepare(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(todo)
	if err != nil {
		t.Fatal(err)
	}
	todo.path = disk.path
	other := child(t, disk.path, "act "+base64.StdEncoding.EncodeToString(text))
	other.read(t, "ready")
	if killed {
		c.Close()
	}
	if err := disk.take(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.stdin.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	other.read(t, "committed")
	if killed {
		other.kill()
		c = openSynced(t, disk.path, disk.sync, list...)
	}
	if err := a.answer(ctx, c, todo); err != nil {
		t.Fatal(err)
	}
	return a.kept(ctx, disk.open(t), todo)
}

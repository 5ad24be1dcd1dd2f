package main

import (
	"bufio"
	"context"
	"io"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi/server"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// onBoth runs a test on a store and on a server in front of it.
func onBoth(t *testing.T, fn func(t *testing.T, c *sojourn.Client, url string)) {
	t.Helper()
	for _, name := range []string{"sqlite", "server"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "jobs.db")
			c, err := sqlite.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			url := "sqlite:" + path
			if name == "server" {
				h, err := server.New(t.Context(), driver.Of(c), server.Options{Open: true})
				if err != nil {
					t.Fatal(err)
				}
				s := httptest.NewServer(h)
				t.Cleanup(func() { h.Drain(); s.Close() })
				url = s.URL
			}
			fn(t, c, url)
		})
	}
}

// following runs a command that goes on. next is its next line; interrupt interrupts it; exit is
// its exit code, when it has ended.
func following(t *testing.T, url string, args ...string) (next func() string, interrupt func(), exit func() int) {
	t.Helper()
	read, write := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		a := &app{in: strings.NewReader(""), out: write, err: io.Discard, env: func(string) string { return "" }}
		n := run(ctx, a, append(args, "--store", url))
		_ = write.Close()
		code <- n
	}()
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(read); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(cancel)
	return func() string {
			t.Helper()
			select {
			case line := <-lines:
				return line
			case <-time.After(patience):
				t.Fatal("nothing more is printed")
				return ""
			}
		}, cancel, func() int {
			t.Helper()
			select {
			case n := <-code:
				return n
			case <-time.After(patience):
				t.Fatal("the command does not end")
				return 0
			}
		}
}

func enqueueOne(t *testing.T, c *sojourn.Client, key string) {
	t.Helper()
	if _, err := c.Enqueue(t.Context(), sojourn.NewJob("mail", []byte("{}"), sojourn.Key(key))); err != nil {
		t.Fatal(err)
	}
}

// Without a terminal, --watch writes new and changed rows until it is interrupted.
func TestWatch(t *testing.T) {
	onBoth(t, func(t *testing.T, c *sojourn.Client, url string) {
		enqueueOne(t, c, "a")
		next, interrupt, exit := following(t, url, "job", "ls", "--watch", "--every", "100ms", "-o", "json")
		if line := next(); !strings.Contains(line, `"key":"a"`) {
			t.Errorf("the first line is %s", line)
		}
		enqueueOne(t, c, "b")
		if line := next(); !strings.Contains(line, `"key":"b"`) {
			t.Errorf("the second line is %s", line)
		}
		if err := c.Cancel(t.Context(), 1, "ada", ""); err != nil {
			t.Fatal(err)
		}
		if line := next(); !strings.Contains(line, `"state":"cancelled"`) {
			t.Errorf("the line of a job that has changed is %s", line)
		}
		interrupt()
		if code := exit(); code != exitOK {
			t.Errorf("exit code %d", code)
		}
	})
}

// tail shows what happens to a job, and its exit code tells how it ended.
func TestTail(t *testing.T) {
	onBoth(t, func(t *testing.T, c *sojourn.Client, url string) {
		for key, want := range map[string]int{"good": exitOK, "bad": exitFailed} {
			enqueueOne(t, c, key)
			next, _, exit := following(t, url, "tail", "mail/"+key)
			expect := func(text string) {
				t.Helper()
				if line := next(); !strings.Contains(line, text) {
					t.Errorf("the line is %q, want %q", line, text)
				}
			}
			expect("state    ready")
			progress := "half"
			got, err := driver.Of(c).Claim(t.Context(), driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"mail"}, Max: 1, Capacity: 1})
			if err != nil || len(got) != 1 {
				t.Fatal(got, err)
			}
			if _, err := driver.Of(c).Save(t.Context(), []driver.Saved{{Lease: got[0].Lease, Progress: &progress, Log: []sojourn.LogLine{{Level: "INFO", Text: "sent"}}}}); err != nil {
				t.Fatal(err)
			}
			seen := next() + next() + next()
			for _, text := range []string{"log      INFO sent", "progress half", "state    running by w"} {
				if !strings.Contains(seen, text) {
					t.Errorf("%q is missing in %q", text, seen)
				}
			}
			o := sojourn.Outcome{Lease: got[0].Lease, Type: sojourn.OutcomeCompleted, Result: []byte("fine"), ResultType: "text/plain"}
			if want == exitFailed {
				o.Type, o.Reason, o.Text = sojourn.OutcomeAbort, "declined", "no money"
			}
			if _, err := driver.Of(c).Finish(t.Context(), []sojourn.Outcome{o}); err != nil {
				t.Fatal(err)
			}
			expect("history  attempt 1, start: ")
			expect("state    ")
			if code := exit(); code != want {
				t.Errorf("%s: exit code %d, want %d", key, code, want)
			}
			_, _, again := following(t, url, "tail", "mail/"+key) // of a job that has ended
			if code := again(); code != want {
				t.Errorf("%s, again: exit code %d, want %d", key, code, want)
			}
		}
	})
}

// The picture fits the terminal, the oldest come first, and rates are differences.
func TestTopPicture(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	queue := func(name string, done int64, ready time.Time) sojourn.QueueStatus {
		return sojourn.QueueStatus{Name: name, Counts: map[sojourn.State]int64{sojourn.Completed: done}, OldestReady: ready}
	}
	before := picture{Status: sojourn.Status{Now: now.Add(-2 * time.Second)}, Queues: []sojourn.QueueStatus{queue("a", 10, time.Time{}), queue("b", 50, time.Time{})}}
	p := picture{Status: sojourn.Status{Store: "sqlite", Location: "jobs.db", Now: now}, Workers: []sojourn.WorkerStatus{{Worker: "w1", Running: 1, SeenAt: now}},
		Queues: []sojourn.QueueStatus{queue("a", 17, time.Time{}), queue("b", 40, now.Add(-90*time.Second)), queue("c", 4, now.Add(-time.Second))}}
	p.Queues[2].Pace.HoldUntil = now.Add(time.Minute).UnixMicro()
	text := p.text(&before, 0, 0)
	var rows []string
	for line := range strings.Lines(text) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	for i, want := range map[int]string{2: "b 0 0 0 0 0 0 40 0.0/s 1m30s 0", 3: "c 0 0 0 0 0 0 4 2.0/s 1s 0 on hold for 1m00s", 4: "a 0 0 0 0 0 0 17 3.5/s 0", 7: "w1 running 1 0 0ms ago"} {
		if rows[i] != want {
			t.Errorf("line %d is %q, want %q", i, rows[i], want)
		}
	}
	small := p.text(&before, 20, 4)
	lines := strings.Split(strings.TrimSuffix(small, "\n"), "\n")
	if len(lines) != 4 || lines[3] != "… 5 lines more" {
		t.Errorf("in 4 lines it is %q", lines)
	}
	for _, l := range lines {
		if len([]rune(l)) > 20 {
			t.Errorf("%q is wider than 20", l)
		}
	}
}

// A worker that is drained by its name ends by itself, with exit code 0 (spec:W3).
func TestWorkEndsWhenDrained(t *testing.T) {
	onBoth(t, func(t *testing.T, c *sojourn.Client, url string) {
		_, _, exit := following(t, url, "work", "--kind", "k", "--name", "west-1", "--exec", "true")
		soon(t, "the worker is not listed", func() bool {
			ws, err := c.Store().(sojourn.WorkerKeeper).Workers(t.Context(), sojourn.WorkerFilter{})
			return err == nil && len(ws) == 1 && ws[0].Name == "west-1"
		})
		_, _, drained := following(t, url, "worker", "drain", "west-1", "-o", "json")
		if code := drained(); code != exitOK {
			t.Errorf("worker drain: exit code %d", code)
		}
		if code := exit(); code != exitOK {
			t.Errorf("work: exit code %d", code)
		}
	})
}

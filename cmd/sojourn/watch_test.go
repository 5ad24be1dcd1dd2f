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
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
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
		a := &cli.App{In: strings.NewReader(""), Out: write, Err: io.Discard, Env: func(string) string { return "" }}
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
		if err := c.As("ada").Cancel(t.Context(), 1, ""); err != nil {
			t.Fatal(err)
		}
		if line := next(); !strings.Contains(line, `"state":"cancelled"`) {
			t.Errorf("the line of a job that has changed is %s", line)
		}
		interrupt()
		if code := exit(); code != cli.ExitOK {
			t.Errorf("exit code %d", code)
		}
	})
}

// tail shows what happens to a job, and its exit code tells how it ended.
func TestTail(t *testing.T) {
	onBoth(t, func(t *testing.T, c *sojourn.Client, url string) {
		for key, want := range map[string]int{"good": cli.ExitOK, "bad": cli.ExitFailed} {
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
			if want == cli.ExitFailed {
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

// A worker that is drained by its name ends by itself, with exit code 0 (spec:W3, spec:W6).
func TestWorkEndsWhenDrained(t *testing.T) {
	onBoth(t, func(t *testing.T, c *sojourn.Client, url string) {
		_, _, exit := following(t, url, "work", "--kind", "k", "--name", "west-1", "--exec", "true")
		soon(t, "the worker is not listed", func() bool {
			ws, err := c.Store().Workers(t.Context(), "", 0)
			return err == nil && len(ws) == 1 && ws[0].Name == "west-1"
		})
		_, _, drained := following(t, url, "worker", "drain", "west-1", "-o", "json")
		if code := drained(); code != cli.ExitOK {
			t.Errorf("worker drain: exit code %d", code)
		}
		if code := exit(); code != cli.ExitOK {
			t.Errorf("work: exit code %d", code)
		}
	})
}

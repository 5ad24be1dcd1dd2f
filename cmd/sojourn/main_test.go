package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/democmd"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi/server"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/store"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"sojourn": func() { os.Exit(command()) }})
}

// tests stops the server that they have started.
type tests struct{ m *testing.M }

func (t tests) Run() int {
	defer pgtest.Stop()
	defer removeTypeScript()
	return t.m.Run()
}

// TestScripts runs testdata/*.txt, one for each group of commands. In them "exits N COMMAND..."
// wants that exit code, and "claims NAME KIND" claims a job of the kind, if there is one, for a
// worker called NAME; "! claims" wants it to be refused because the worker is drained.
// "fails KIND REASON TEXT..." claims a job for each text and fails it.
func TestScripts(t *testing.T) {
	scripts(t, "sqlite:jobs.db", "testdata/*.txt")
}

// TestScriptsOverHTTP runs those about what stands in a store again, with a server in front of it.
func TestScriptsOverHTTP(t *testing.T) {
	for _, name := range overHTTP {
		scripts(t, "", "testdata/"+name+".txt")
	}
}

// overHTTP are the scripts about what stands in a store, wherever that is.
var overHTTP = []string{"server/audit", "completion", "config_store", "depends", "enqueue", "failure", "inbox", "job", "job_edit", "queue", "respond", "retry", "schedule", "search", "server/local", "stats", "tag", "tail", "top", "why", "window", "worker", "workflow"}

// TestEveryCommandOverHTTP: each command is in one of these scripts, except those that have no
// store of their own.
func TestEveryCommandOverHTTP(t *testing.T) {
	var text strings.Builder
	for _, name := range overHTTP {
		b, err := os.ReadFile("testdata/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
	}
	for _, line := range commandLines {
		cmd, _, err := newRoot(&cli.App{Env: os.Getenv}).Find(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		if path := cmd.CommandPath(); path != "sojourn webhook" && !strings.Contains(text.String(), path+" ") && !strings.Contains(text.String(), path+"\n") {
			t.Errorf("%s is in none of the scripts that run over HTTP", path)
		}
	}
}

// scripts runs scripts on the store of this URL; without one, on a server in front of jobs.db.
func scripts(t *testing.T, url, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(pattern, err)
	}
	testscript.Run(t, testscript.Params{
		Files: files,
		Setup: func(e *testscript.Env) error {
			e.Setenv("USER", "ada")
			if url != "" {
				e.Setenv("SOJOURN_URL", url)
				return nil
			}
			c, err := sqlite.Open(filepath.Join(e.WorkDir, "jobs.db"))
			if err != nil {
				return err
			}
			e.Defer(func() { _ = c.Close() })
			h, err := server.New(context.Background(), driver.Of(c), server.Options{Open: true})
			if err != nil {
				return err
			}
			s := httptest.NewServer(h)
			ctx, stop := context.WithCancel(context.Background())
			var sweep sync.WaitGroup
			sweep.Go(func() { h.Sweep(ctx) })
			e.Defer(func() { stop(); sweep.Wait(); h.Drain(); s.Close() })
			e.Setenv("SOJOURN_URL", s.URL)
			e.Setenv("NO_PROXY", "127.0.0.1")
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "brokers" {
				return false, fmt.Errorf("%q is no condition", name)
			}
			return democmd.HasBrokers(), nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "claims": claims, "fails": fails},
	})
}

// openOf opens the store of the script's commands.
func openOf(ts *testscript.TestScript) *sojourn.Client {
	url := ts.Getenv("SOJOURN_URL")
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		url = "sqlite:" + ts.MkAbs(path)
	}
	c, err := store.Open(url)
	ts.Check(err)
	return c
}

// claim takes one job of a kind under a lease, if there is one.
func claim(c *sojourn.Client, name, kind string) ([]driver.Claimed, error) {
	return driver.Of(c).Claim(context.Background(), driver.ClaimRequest{Worker: name + "." + kind, Name: name, Queues: []string{sojourn.DefaultQueue},
		Kinds: []string{kind}, Max: 1, Capacity: 1})
}

// fails takes jobs of a kind, one for each text, and reports a final error with that text.
func fails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: fails KIND REASON TEXT...")
	}
	c := openOf(ts)
	defer c.Close()
	for _, text := range args[2:] {
		got, err := claim(c, "test", args[0])
		ts.Check(err)
		if len(got) != 1 {
			ts.Fatalf("%d jobs claimed, want 1", len(got))
		}
		done, err := driver.Of(c).Finish(context.Background(), []sojourn.Outcome{{Lease: got[0].Lease, Type: sojourn.OutcomeError, Reason: args[1], Text: text, Detail: []byte(`{"text": true}`),
			Verdict: sojourn.Verdict{Final: true}}})
		ts.Check(err)
		if done[0].Status != driver.FinishApplied {
			ts.Fatalf("the outcome is %s: %v", done[0].Status, done[0].Err)
		}
	}
}

// claims takes a job under a lease, as a worker would.
func claims(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: claims NAME KIND")
	}
	c := openOf(ts)
	defer c.Close()
	_, err := claim(c, args[0], args[1])
	if !neg {
		ts.Check(err)
	} else if sojourn.ErrorCode(err) != sojourn.CodeDrained {
		ts.Fatalf("the claim answered %v, want %s", err, sojourn.CodeDrained)
	}
}

// exits runs a command and checks its exit code; stdout and stderr then look at its output.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

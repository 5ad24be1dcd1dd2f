package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sojourn-queue/sojourn/internal/pgtest"
)

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"sojourn": func() { os.Exit(command()) }})
}

// tests stops the server that they have started.
type tests struct{ m *testing.M }

func (t tests) Run() int {
	defer pgtest.Stop()
	return t.m.Run()
}

// TestScripts runs testdata/*.txt, one for each group of commands. In them "exits N COMMAND..." wants that exit code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("USER", "ada")
			e.Setenv("SOJOURN_URL", "sqlite:jobs.db")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
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

package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
)

// commandLines has each command that needs a store, with arguments it accepts.
var commandLines = []string{
	"demo --headless --for 1s", "bench --jobs 1 claim", "enqueue mail", "respond mail k --body {}",
	"job ls", "job get 1", "job history 1", "job log 1", "job log 1 text", "job edit 1 --priority 1", "job cancel 1", "job redrive 1", "job release 1", "job purge 1", "job clone 1", "job depends 1",
	"queue ls", "queue get q", "queue set q", "queue pause q", "queue resume q", "queue forget q", "queue peek q", "queue hold q", "queue unhold q", "why 1", "work --kind k --exec true", "audit ls", "config get", "config set x-a 1", "config unset x-a", "top --once", "tail 1", "worker ls", "worker get w", "worker drain w", "worker forget w", "window preview --queue q", "inbox ls",
	"schedule set n k --every 1h", "schedule test n k --every 1h", "schedule ls", "schedule get n", "schedule run n", "schedule pause n", "schedule resume n", "schedule rm n",
	"workflow run w.json", "workflow ls", "workflow get w", "workflow members w", "workflow close w", "workflow cancel w", "workflow redrive w",
	"failure ls", "failure get 1", "failure redrive 1", "failure cancel 1", "failure mute 1", "retry test --max-attempts 2", "operation ls", "operation get o", "operation pause o", "operation resume o", "operation cancel o", "stats",
	"inbox get 1", "inbox count", "inbox match 1 --job 1", "inbox retry 1", "inbox discard 1", "webhook",
	"token create --name a --verb read", "token ls", "token revoke 1", "token rotate 1",
	"tag ls", "tag jobs t", "follower add f", "follower ls", "follower rm f", "follower tail f", "archive add a --to table:", "archive run a --once", "archive ls", "archive rm a", "migrate status", "migrate up", "migrate down", "migrate print", "migrate check", "store backup b.db", "store restore b.db", "store compact", "doctor",
}

// storeless are commands that open no store, or something else before it; serve calls any store
// that it cannot open unusable.
var storeless = []string{"sojourn version", "sojourn health", "sojourn man", "sojourn docs", "sojourn serve", "sojourn source ls", "sojourn source test", "sojourn source run", "sojourn source check"}

// TestStoreOfEveryCommand shows for every command that takes a store that the flag goes before
// SOJOURN_URL, and that before the default.
func TestStoreOfEveryCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	lines := map[string]string{}
	root := newRoot(&cli.App{Env: func(string) string { return "" }})
	for _, line := range commandLines {
		cmd, _, err := root.Find(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		lines[cmd.CommandPath()] = line
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			walk(c)
		}
		path := cmd.CommandPath()
		if cmd.HasSubCommands() || slices.Contains(storeless, path) {
			return
		}
		line, ok := lines[path]
		if !ok {
			t.Errorf("%s is not in the table commandLines", path)
			return
		}
		delete(lines, path)
		// A store of an unknown scheme is refused by its name, before anything is opened.
		for _, c := range []struct{ flag, env, named string }{
			{"flag://x", "env://x", `"flag"`},
			{"", "env://x", `"env"`},
		} {
			if c.flag == "" && path == "sojourn bench" { // which never loads a store that only a variable names
				continue
			}
			var out, errs strings.Builder
			a := &cli.App{Out: &out, Err: &errs, In: strings.NewReader(""), Env: func(name string) string {
				if name == "SOJOURN_URL" {
					return c.env
				}
				return ""
			}}
			args := strings.Fields(line)
			if c.flag != "" {
				args = append(args, "--store", c.flag)
			}
			if code := run(context.Background(), a, args); code != cli.ExitUsage || !strings.Contains(errs.String(), "scheme "+c.named) {
				t.Errorf("%s with --store %q and SOJOURN_URL=%s: exit code %d, %s; want the scheme %s refused", line, c.flag, c.env, code, &errs, c.named)
			}
		}
	}
	walk(root)
	for path := range lines {
		t.Errorf("%s is in the table commandLines twice or no command", path)
	}
	if url := (&cli.App{Env: func(string) string { return "" }}).URL(); url != "sqlite:sojourn.db" {
		t.Errorf("the default store is %s", url)
	}
	if left, _ := filepath.Glob("*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestCommandsOnPostgres runs the commands of a job's life on a server that only SOJOURN_URL names,
// as a URL and as a JSON object (spec:A7).
func TestCommandsOnPostgres(t *testing.T) {
	schema := pgtest.NewSchema(t)
	url := pgtest.With(t, pgtest.URL(t), "schema", schema)
	cfg, err := pgx.ParseConfig(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	object, err := json.Marshal(map[string]any{"host": cfg.Host, "port": cfg.Port, "db": cfg.Database, "user": cfg.User, "password": cfg.Password, "schema": schema})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		line, want string
		code       int
	}{
		{"job ls", "sojourn migrate up", cli.ExitUnavailable},
		{"migrate status", "sojourn migrate up", cli.ExitFailed},
		{"migrate up", "schema ", cli.ExitOK},
		{"migrate check", "schema ", cli.ExitOK},
		{"migrate print --down --steps 10", "drop table " + schema + ".sj_job;", cli.ExitOK},
		{"migrate down --to 0", "schema 0", cli.ExitOK},
		{"migrate print", "create schema if not exists " + schema, cli.ExitOK},
		{"migrate check", "sojourn migrate up", cli.ExitFailed},
		{"migrate up", "0001", cli.ExitOK},
		{"migrate status", "schema ", cli.ExitOK},
		{"enqueue mail --key k --args {}", "", cli.ExitOK},
		{"job get mail/k", "mail", cli.ExitOK},
		{"respond mail k --body {}", "early", cli.ExitOK},
		{"queue ls", "default", cli.ExitOK},
		{"doctor", "ok", cli.ExitOK},
		{"migrate down --to 0", "--help", cli.ExitUsage},
		{"store backup b.db", "docs/guides/postgresql.md", cli.ExitUsage},
		{"store restore b.db", "pg_dump", cli.ExitUsage},
		{"store compact", "base backups", cli.ExitUsage},
		{"job cancel 1", "", cli.ExitOK},
		{"inbox ls", "late", cli.ExitOK},
		{"job get none/k", "", cli.ExitNotFound},
	} {
		var out strings.Builder
		a := &cli.App{Out: &out, Err: &out, In: strings.NewReader(""), Env: func(name string) string {
			if name == "SOJOURN_URL" {
				return []string{url, string(object)}[i%2]
			}
			return ""
		}}
		if code := run(context.Background(), a, strings.Fields(c.line)); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: exit code %d, want %d with %q:\n%s", c.line, code, c.code, c.want, &out)
		}
	}
}

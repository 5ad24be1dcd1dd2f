package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// bytesFrom reads what --args and --body take: the text itself, @FILE, or - for standard input.
func (a *app) bytesFrom(flag, value string) ([]byte, error) {
	var b []byte
	var err error
	switch name, file := strings.CutPrefix(value, "@"); {
	case value == "-":
		b, err = readAll(a.in)
	case file:
		b, err = readFile(name)
	default:
		return []byte(value), nil
	}
	if err != nil {
		return nil, sojourn.Invalid(flag, "%v", err)
	}
	return b, nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

// readAll reads one byte more than any store takes, so that the store's refusal names the limit.
func readAll(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, sojourn.MaxMaxBytes+1))
}

// checkJSON refuses what claims to be JSON and is not.
func checkJSON(flag, contentType string, b []byte) error {
	if contentType == "application/json" && !json.Valid(b) {
		return sojourn.Invalid(flag, "the value is not JSON; fix it, or set its type with --content-type")
	}
	return nil
}

// badUsage is an error of the command line that is not about one flag alone.
func badUsage(format string, args ...any) *sojourn.Error {
	return &sojourn.Error{Code: sojourn.CodeInvalid, Index: -1, Message: fmt.Sprintf(format, args...)}
}

// confirm refuses a change of several things that --yes does not confirm.
func confirm(verb, things string) *sojourn.Error {
	return badUsage("this would %s %s; repeat with --yes, or with --dry-run to only count", verb, things)
}

func parseID(text string) (sojourn.ID, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 || id >= 1<<53 {
		return 0, sojourn.Invalid("id", "%.64q is not a job id; use a whole number from 1", text)
	}
	return sojourn.ID(id), nil
}

func parseIDs(args []string) ([]sojourn.ID, error) {
	var ids []sojourn.ID
	for _, arg := range args {
		id, err := parseID(arg)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// parseTime reads a point in time.
func parseTime(flag, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, sojourn.Invalid(flag, "%.64q is not a time; use a form such as 2026-01-31T18:00:00Z", text)
	}
	return t, nil
}

// parseStates reads states; live and final stand for several.
func parseStates(names []string) ([]sojourn.State, error) {
	var states []sojourn.State
	for _, n := range names {
		switch n {
		case "live":
			states = append(states, liveStates...)
		case "final":
			states = append(states, finalStates...)
		default:
			s, err := sojourn.ParseState(n)
			if err != nil {
				return nil, err
			}
			states = append(states, s)
		}
	}
	return states, nil
}

var (
	liveStates  = []sojourn.State{sojourn.Blocked, sojourn.Scheduled, sojourn.Ready, sojourn.Running, sojourn.Awaiting, sojourn.Errored}
	finalStates = []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled}
)

// parseMeta reads NAME=VALUE.
func parseMeta(pairs []string) ([]sojourn.Option, error) {
	var options []sojourn.Option
	for _, p := range pairs {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, sojourn.Invalid("meta", "%.64q is not of the form NAME=VALUE", p)
		}
		options = append(options, sojourn.Meta(name, value))
	}
	return options, nil
}

// user names who does this, for the history.
func (a *app) user() string {
	for _, name := range []string{"USER", "USERNAME"} {
		if v := a.env(name); v != "" {
			return v
		}
	}
	return "cli"
}

// plural counts things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

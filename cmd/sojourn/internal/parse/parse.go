// Package parse reads the values of arguments and flags.
package parse

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/rules"
)

// CheckJSON refuses what claims to be JSON and is not.
func CheckJSON(flag, contentType string, b []byte) error {
	if contentType == "application/json" && !json.Valid(b) {
		return sojourn.Invalid(flag, "the value is not JSON; fix it, or set its type with --content-type")
	}
	return nil
}

// ID reads the id of a job.
func ID(text string) (sojourn.ID, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 || id >= 1<<53 {
		return 0, sojourn.Invalid("id", "%.64q is not a job id; use a whole number from 1", text)
	}
	return sojourn.ID(id), nil
}

// IDs reads ids of jobs.
func IDs(args []string) ([]sojourn.ID, error) {
	var ids []sojourn.ID
	for _, arg := range args {
		id, err := ID(arg)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Time reads a point in time.
func Time(flag, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, sojourn.Invalid(flag, "%.64q is not a time; use a form such as 2026-01-31T18:00:00Z", text)
	}
	return t, nil
}

// States reads states; live and final stand for several.
func States(names []string) ([]sojourn.State, error) {
	var states []sojourn.State
	for _, n := range names {
		switch n {
		case "live":
			states = append(states, LiveStates...)
		case "final":
			states = append(states, FinalStates...)
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

// What the words live and final stand for.
var (
	LiveStates  = []sojourn.State{sojourn.Blocked, sojourn.Scheduled, sojourn.Ready, sojourn.Running, sojourn.Awaiting, sojourn.Errored}
	FinalStates = []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled}
)

// Meta reads NAME=VALUE.
func Meta(pairs []string) ([]sojourn.Option, error) {
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

// Windows reads windows as text or JSON: one object, or a list of them.
func Windows(texts []string) (sojourn.Windows, error) {
	var all sojourn.Windows
	for _, text := range texts {
		var list sojourn.Windows
		var err error
		switch trimmed := strings.TrimSpace(text); {
		case strings.HasPrefix(trimmed, "["):
			err = strictJSON(text, &list)
		case strings.HasPrefix(trimmed, "{"):
			list = make(sojourn.Windows, 1)
			err = strictJSON(text, &list[0])
		default:
			list = make(sojourn.Windows, 1)
			list[0], err = sojourn.ParseWindow(text)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, rules.ValidSettings(sojourn.QueueSettings{Windows: all})
}

func strictJSON(text string, v any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return sojourn.Invalid("window", "%s is not valid JSON for a window: %v", strconv.Quote(terminal.Short(text, 60)), err)
	}
	return nil
}

// SetPointer points *p at a copy of v, if given.
func SetPointer[T any](given bool, p **T, v T) {
	if given {
		*p = &v
	}
}

// Set replaces *p by v, if given.
func Set[T any](given bool, p *T, v T) {
	if given {
		*p = v
	}
}

// OrNone makes 0, where it was given, take a default of the queue back.
func OrNone(given bool, d time.Duration) time.Duration {
	if given && d == 0 {
		return sojourn.None
	}
	return d
}

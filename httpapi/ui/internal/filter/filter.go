// Package filter reads the filters of jobs in the URLs and forms of the page.
package filter

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/filter"
)

// States are those of the filter, in the order of a job's life.
var States = []string{"blocked", "scheduled", "ready", "running", "awaiting", "errored", "completed", "failed", "cancelled"}

// Fields are the filters of the page of jobs, as in its URL.
var Fields = []string{"where", "kind", "queue", "key", "group", "tag", "reason", "failure", "state", "since", "until", "id"}

// Of reads a filter from the URL or a form. Of selected rows only those are meant that the text of
// the filter chooses too.
func Of(values url.Values) (sojourn.Filter, error) {
	get := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	f := sojourn.Filter{Kind: get("kind"), Queue: get("queue"), Key: get("key"), Group: get("group"), Tag: get("tag"), Reason: get("reason"), Failure: get("failure")}
	for _, name := range values["state"] {
		if name == "" {
			continue
		}
		state, err := sojourn.ParseState(name)
		if err != nil {
			return f, err
		}
		f.States = append(f.States, state)
	}
	for name, to := range map[string]*time.Time{"since": &f.CreatedAfter, "until": &f.CreatedBefore} {
		if get(name) == "" {
			continue
		}
		at, err := ParseTime(get(name))
		if err != nil {
			return f, sojourn.Invalid(name, "%.64q is not a time such as 2026-01-31T14:00 (UTC)", get(name))
		}
		*to = at
	}
	for _, text := range values["id"] {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id < 1 {
			return f, sojourn.Invalid("id", "%.64q is not the id of a job", text)
		}
		f.IDs = append(f.IDs, sojourn.ID(id))
	}
	if text := get("where"); text != "" {
		return withText(f, text)
	}
	return f, f.Validate()
}

// withText adds the conditions of a filter's text.
func withText(f sojourn.Filter, text string) (sojourn.Filter, error) {
	read, err := filter.Parse(text, time.Now())
	if err != nil {
		return f, err
	}
	if f.IDs != nil && read.IDs != nil {
		f.IDs = slices.DeleteFunc(f.IDs, func(id sojourn.ID) bool { return !slices.Contains(read.IDs, id) })
		read.IDs = nil
	}
	if f, err = filter.Join(f, read); err != nil {
		return f, err
	}
	return f, f.Validate()
}

// ParseTime reads a time in UTC, as <input type=datetime-local> writes it.
func ParseTime(s string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339, "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("not a time")
}

// Query has the filters of a URL, and nothing else of it.
func Query(values url.Values) url.Values {
	out := url.Values{}
	for _, name := range Fields {
		for _, v := range values[name] {
			if v = strings.TrimSpace(v); v != "" {
				out.Add(name, v)
			}
		}
	}
	return out
}

// BulkEdit is the change that a bulk action makes.
func BulkEdit(action string) (sojourn.Edit, error) {
	switch action {
	case "cancel":
		return sojourn.Edit{Action: sojourn.EditCancel}, nil
	case "redrive":
		return sojourn.Edit{Action: sojourn.EditRedrive}, nil
	}
	return sojourn.Edit{}, sojourn.Invalid("action", "%.64q is not an action: use cancel or redrive", action)
}

// Bulk restricts a filter to the jobs that the action can change, so that the count is the
// number of jobs that change.
func Bulk(values url.Values, action string) (sojourn.Filter, error) {
	f, err := Of(values)
	if err != nil {
		return f, err
	}
	can := sojourn.State.Live
	if action == "redrive" {
		can = func(s sojourn.State) bool { return s == sojourn.Failed || s == sojourn.Cancelled }
	}
	within := []sojourn.State{}
	for state := sojourn.Blocked; state <= sojourn.Cancelled; state++ {
		if can(state) && (len(f.States) == 0 || slices.Contains(f.States, state)) {
			within = append(within, state)
		}
	}
	f.States = within
	return f, nil
}

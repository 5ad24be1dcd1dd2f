// Package filter reads filters of jobs from text, as people type them:
//
//	kind:charge state:awaiting,errored age:>10m
//	key:"order 17" created:>2026-11-01T00:00:00Z
//	state:failed reason:timeout ended_ago:<1h
//	kind:charge args.customer:42
//
// Terms are separated by spaces, and a job must meet all of them. A term is a field, a colon and a
// value; a value with spaces stands in double quotes, in which \" and \\ are a quote and a
// backslash. Each field may be given once, times once in each direction.
//
//	id            ids, separated by commas
//	kind, key, queue, group, tag, reason, failure   as in sojourn.Filter
//	state         names of states, separated by commas; live and final stand for several
//	created, ended    > or < and a time of RFC 3339: after or before it
//	age, ended_ago    > or < and a duration such as 10m, 36h or 7d: more or less than this long ago
//	args.PATH, result.PATH, meta.KEY    a value of JSON, of queues that index the path
//
// The command sojourn, the HTTP API and the page take the same text.
package filter

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/jsonfield"
)

// Fields are the names of the fields, in the order of the documentation.
var Fields = []string{"id", "kind", "key", "queue", "group", "tag", "reason", "failure", "state", "created", "ended", "age", "ended_ago"}

// maxText bounds the text: a thousand ids and more than any other filter needs.
const maxText = 32 << 10

// Parse reads a filter. Ages count back from now. Its errors are *sojourn.Error with the code
// invalid and the field "where"; an empty text is one, because it would choose every job.
func Parse(text string, now time.Time) (sojourn.Filter, error) {
	var f sojourn.Filter
	if len(text) > maxText {
		return f, invalid("%d bytes exceed the limit of %d", len(text), maxText)
	}
	terms, err := split(text)
	if err != nil {
		return f, err
	}
	if len(terms) == 0 {
		return f, invalid("the filter is empty; write at least one term such as state:failed")
	}
	p := parser{filter: &f, now: now, given: map[string]bool{}}
	for _, t := range terms {
		if err := p.term(t); err != nil {
			return sojourn.Filter{}, err
		}
	}
	if err := f.Validate(); err != nil {
		return sojourn.Filter{}, err
	}
	return f, nil
}

func invalid(format string, args ...any) error { return sojourn.Invalid("where", format, args...) }

// term is a field and its value. compare is > or < if the value begins so.
type term struct{ field, compare, value string }

// split reads the terms of a text.
func split(text string) (terms []term, err error) {
	for rest := strings.TrimLeft(text, " \t\r\n"); rest != ""; rest = strings.TrimLeft(rest, " \t\r\n") {
		end := strings.IndexAny(rest, ": \t\r\n")
		if end < 0 || rest[end] != ':' {
			word := rest
			if end >= 0 {
				word = rest[:end]
			}
			return nil, invalid("%.64q has no field: write key:%.64[1]s, id:%.64[1]s or the like; fields are %s", word, strings.Join(Fields, ", "))
		}
		t := term{field: rest[:end]}
		rest = rest[end+1:]
		if rest != "" && strings.Contains("<>", rest[:1]) {
			t.compare, rest = rest[:1], rest[1:]
		}
		if t.value, rest, err = value(rest); err != nil {
			return nil, err
		}
		if t.value == "" {
			return nil, invalid("%.64s: has no value; leave it out, or write one behind the colon", t.field)
		}
		terms = append(terms, t)
	}
	return terms, nil
}

// value reads a value up to a space, or one in quotes.
func value(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		if end := strings.IndexAny(text, " \t\r\n"); end >= 0 {
			return text[:end], text[end:], nil
		}
		return text, "", nil
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
			i++
			b.WriteByte(text[i])
		case text[i] == '"':
			if rest = text[i+1:]; rest != "" && !strings.Contains(" \t\r\n", rest[:1]) {
				return "", "", invalid("%.64q: a space must follow the quote that ends a value", text)
			}
			return b.String(), rest, nil
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", invalid("%.64q has no quote at its end", text)
}

// parser fills a filter.
type parser struct {
	filter *sojourn.Filter
	now    time.Time
	given  map[string]bool
}

func (p *parser) term(t term) error {
	name := t.field + t.compare
	if p.given[name] {
		return invalid("%.64s is given twice", name)
	}
	p.given[name] = true
	f := p.filter
	texts := map[string]*string{"kind": &f.Kind, "key": &f.Key, "queue": &f.Queue, "group": &f.Group, "tag": &f.Tag, "reason": &f.Reason, "failure": &f.Failure}
	switch to := texts[t.field]; {
	case t.field == "created" || t.field == "ended" || t.field == "age" || t.field == "ended_ago":
		return p.time(t)
	case to == nil && t.field != "id" && t.field != "state" && !jsonfield.IsPath(t.field):
		return invalid("%.64q is not a field; fields are %s, and paths such as args.customer", t.field, strings.Join(Fields, ", "))
	case t.compare != "":
		return invalid("%.64s takes no %s: write %.64[1]s:%.64s, in quotes if the value begins with it", t.field, t.compare, t.value)
	case t.field == "id":
		return p.ids(t.value)
	case t.field == "state":
		return p.states(t.value)
	case to == nil:
		return p.path(t)
	default:
		*to = t.value
		return nil
	}
}

// path reads the value of a path.
func (p *parser) path(t term) error {
	if why := jsonfield.Valid(t.field); why != "" {
		return invalid("%s", why)
	}
	if p.filter.Fields == nil {
		p.filter.Fields = map[string]string{}
	}
	p.filter.Fields[t.field] = t.value
	return nil
}

// Paths writes the values of paths as terms of a filter.
func Paths(fields map[string]string) string {
	var terms []string
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		terms = append(terms, path+`:"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(fields[path])+`"`)
	}
	return strings.Join(terms, " ")
}

func (p *parser) ids(text string) error {
	for _, one := range strings.Split(text, ",") {
		id, err := strconv.ParseInt(one, 10, 64)
		if err != nil || id < 1 || strconv.FormatInt(id, 10) != one {
			return invalid("id: %.64q is not the id of a job", one)
		}
		p.filter.IDs = append(p.filter.IDs, sojourn.ID(id))
	}
	return nil
}

func (p *parser) states(text string) error {
	for _, name := range strings.Split(text, ",") {
		some := []sojourn.State{}
		for s := sojourn.Blocked; s <= sojourn.Cancelled; s++ {
			if s.String() == name || name == "live" && s.Live() || name == "final" && s.Final() {
				some = append(some, s)
			}
		}
		if len(some) == 0 {
			return invalid("state: %.64q is none of blocked, scheduled, ready, running, awaiting, errored, completed, failed, cancelled, live and final", name)
		}
		for _, s := range some {
			if !slices.Contains(p.filter.States, s) {
				p.filter.States = append(p.filter.States, s)
			}
		}
	}
	return nil
}

// time reads a bound of a time. An age above a duration is a time before it.
func (p *parser) time(t term) error {
	if t.compare == "" {
		return invalid("%.64s needs a direction: write %.64[1]s:>%.64[2]s or %.64[1]s:<%.64[2]s", t.field, t.value)
	}
	later := t.compare == ">"
	var at time.Time
	if t.field == "created" || t.field == "ended" {
		var err error
		if at, err = time.Parse(time.RFC3339, t.value); err != nil {
			return invalid("%s: %.64q is not a time; use a form such as 2026-01-31T18:00:00Z", t.field, t.value)
		}
	} else {
		d, err := duration(t.value)
		if err != nil || d < 0 {
			return invalid("%s: %.64q is not a duration; use a form such as 90s, 10m, 36h or 7d", t.field, t.value)
		}
		at, later = p.now.Add(-d), !later
	}
	to := map[bool]*time.Time{false: &p.filter.CreatedBefore, true: &p.filter.CreatedAfter}[later]
	if strings.HasPrefix(t.field, "ended") {
		to = map[bool]*time.Time{false: &p.filter.EndedBefore, true: &p.filter.EndedAfter}[later]
	}
	if !to.IsZero() {
		return invalid("%s:%s%.64s bounds a time that another term bounds in the same direction; leave one out", t.field, t.compare, t.value)
	}
	*to = at
	return nil
}

// duration reads a duration of Go, or a number of days of 24 hours.
func duration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

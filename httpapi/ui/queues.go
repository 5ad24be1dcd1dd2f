package ui

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

const shownNext = 10 // jobs that start next

// queuesData is the data of the page of queues.
type queuesData struct {
	Queues []sojourn.QueueStatus
	Prefix string
	Age    time.Duration
	Now    time.Time
}

func queuesPage(q *request) (page, error) {
	found, age, err := q.queueList()
	if err != nil {
		return page{}, err
	}
	d := queuesData{Prefix: q.get("q"), Age: age, Now: time.Now()}
	for _, one := range byAttention(found) {
		if strings.Contains(one.Name, d.Prefix) {
			d.Queues = append(d.Queues, one)
		}
	}
	return page{name: "queues", title: "Queues", nav: "queues", live: 1, data: d}, nil
}

// setting is a line of the settings of a queue, as in the JSON of the HTTP API.
type setting struct {
	Name, Value, Declared string
	Operator              bool // set by an operator
}

// queueData is the data of the page of a queue.
type queueData struct {
	Queue    sojourn.QueueStatus
	Tiles    []tile
	Findings []finding
	Why      sojourn.QueueWhy
	WhyError string
	Next     []*sojourn.Job
	NextText string // why Next is empty
	Settings []setting
	Held     bool
}

func queuePage(q *request) (page, error) {
	name := q.get("name")
	found, err := q.who.client.Queues().Get(q.ctx, name)
	if err != nil {
		return page{}, err
	}
	d := queueData{Queue: found, Tiles: tiles([]sojourn.QueueStatus{found}), Findings: findings(&found, time.Now()), Held: found.HeldUntil.After(time.Now())}
	if d.Why, err = q.who.client.Queues().Why(q.ctx, name); err != nil {
		if !refused(err) {
			return page{}, err
		}
		d.WhyError = "Your token may not see all kinds of this queue."
	}
	next, err := q.who.client.Jobs().Peek(q.ctx, name, shownNext)
	switch d.Next = next; {
	case refused(err):
		d.NextText = "Your token may not see all kinds of this queue."
	case err != nil:
		return page{}, err
	case len(next) == 0:
		d.NextText = "No job is ready."
	}
	d.Settings = settings(&found)
	return page{name: "queue", title: "Queue " + name, nav: "queues", live: 1, data: d}, nil
}

// settings lists the settings in force, the declared ones, and those of an operator.
func settings(s *sojourn.QueueStatus) (out []setting) {
	inForce, declared := fieldsOf(s.Settings), fieldsOf(s.Declared)
	set := s.Overrides.Fields()
	names := slices.Collect(maps.Keys(inForce))
	for _, more := range [][]string{slices.Collect(maps.Keys(declared)), set} {
		for _, name := range more {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if name != "paused" && name != "paused_kinds" {
			out = append(out, setting{Name: name, Value: inForce[name], Declared: declared[name], Operator: slices.Contains(set, name)})
		}
	}
	return out
}

// fieldsOf has the fields of a value that are not zero, each as JSON.
func fieldsOf(v any) map[string]string {
	out := map[string]string{}
	b, err := json.Marshal(v)
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(b, &fields) != nil {
		return out
	}
	for name, value := range fields {
		if text := string(value); text != "{}" && text != "null" {
			out[name] = strings.Trim(text, `"`)
		}
	}
	return out
}

// formQueue is the queue that a form is about, and the link back.
func (q *request) formQueue() (name, to string) {
	name = q.r.PostForm.Get("queue")
	if q.get("back") == "queues" {
		return name, "queues?done="
	}
	return name, "queue?name=" + url.QueryEscape(name) + "&done="
}

// doPause pauses or resumes a queue, or a kind in it.
func doPause(q *request) (string, error) {
	name, to := q.formQueue()
	var kinds []string
	if kind := q.get("kind"); kind != "" {
		kinds = []string{kind}
	}
	if q.get("paused") == "true" {
		return to + "paused", q.who.client.Queues().Pause(q.ctx, name, kinds...)
	}
	return to + "resumed", q.who.client.Queues().Resume(q.ctx, name, kinds...)
}

// doHold stops starts for a time, or ends a hold.
func doHold(q *request) (string, error) {
	name, to := q.formQueue()
	if q.get("end") != "" {
		return to + "unheld", q.who.client.Queues().Unhold(q.ctx, name)
	}
	d, err := time.ParseDuration(q.get("for"))
	if err != nil || d <= 0 {
		return "", sojourn.Invalid("for", "%.64q is not a duration such as 10m or 2h; nothing was changed", q.get("for"))
	}
	return to + "held", q.who.client.Queues().Hold(q.ctx, name, d, q.get("why"))
}

// doSetting changes one setting of a queue, or takes back what an operator has set. The revision in
// the form refuses a change of settings that the person has not seen.
func doSetting(q *request) (string, error) {
	name, to := q.formQueue()
	p := sojourn.QueuePatch{}
	p.Revision, _ = strconv.ParseInt(q.get("revision"), 10, 64)
	field := q.get("setting")
	if q.get("reset") != "" {
		p.Reset = []string{q.get("reset")}
		_, err := q.who.client.Queues().Update(q.ctx, name, p)
		return to + "changed", err
	}
	n, err := strconv.ParseInt(q.get("value"), 10, 64)
	if err != nil {
		return "", sojourn.Invalid(field, "%.64q is not a whole number; nothing was changed", q.get("value"))
	}
	switch field {
	case "limit":
		p.Limit = &n
	case "group_limit":
		p.GroupLimit = &n
	case "max_depth":
		p.MaxDepth = &n
	default:
		return "", sojourn.Invalid("setting", "%.64q cannot be changed here; use \"sojourn queue set\"", field)
	}
	_, err = q.who.client.Queues().Update(q.ctx, name, p)
	return to + "changed", err
}

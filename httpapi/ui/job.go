package ui

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/filter"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/plain"
)

// Limits of the page of a job.
const (
	shownHistory = 200
	shownRelated = 50
	shownAnswers = 100
)

// jobData is the data of the page of a job. A part that the reader's token may not see has a
// sentence instead.
type jobData struct {
	Job       *sojourn.Job
	Args      bool // the reader may see args, results and checkpoints
	Why       sojourn.Why
	WhyError  string
	History   []sojourn.HistoryEntry
	Timeline  []segment
	Began     time.Time
	Ended     time.Time // now, of a live job
	Answers   []*sojourn.Response
	NoAnswers string // why Answers is empty
	Log       []sojourn.LogLine
	Parents   []*sojourn.Job
	Children  []*sojourn.Job
	Awaited   []*sojourn.Job
	Meta      []string
	Message   string // id of the message that the form sends, so that a double click is a duplicate
	Keys      []string
	Commands  []command
}

// command is an action as a line for a shell.
type command struct{ Name, CLI, Curl string }

// jobID is the id in the path.
func (q *request) jobID() (sojourn.ID, error) {
	n, err := strconv.ParseInt(q.r.PathValue("id"), 10, 64)
	if err != nil || n < 1 {
		return 0, sojourn.NotFound("%.64q is not the id of a job", q.r.PathValue("id"))
	}
	return sojourn.ID(n), nil
}

// job reads a job, without args, result and checkpoint if the reader may not see these.
func (q *request) job(id sojourn.ID) (*sojourn.Job, error) {
	j, err := q.who.client.Get(q.ctx, id)
	if !refused(err) && !errors.Is(err, sojourn.ErrNotFound) {
		return j, err
	}
	found, err := q.who.client.Jobs().List(q.ctx, sojourn.Filter{IDs: []sojourn.ID{id}})
	if err == nil && len(found.Items) == 0 {
		err = sojourn.NotFound("no job has the id %d", id)
	}
	if err != nil {
		return nil, err
	}
	return found.Items[0], nil
}

// jobPage shows one job: first why it waits, then what happened to it.
func jobPage(q *request) (page, error) {
	id, err := q.jobID()
	if err != nil {
		return page{}, err
	}
	jobs := q.who.client.Jobs()
	j, err := q.job(id)
	if err != nil {
		return page{}, err
	}
	d := jobData{Job: j, Args: q.can(access.VerbReadArgs, j.Queue, j.Kind), Began: j.CreatedAt, Message: "web-" + rand.Text(), Commands: commands(j)}
	if !j.State.Final() {
		if d.Why, err = jobs.Why(q.ctx, id); err != nil {
			d.WhyError = message(err)
		}
	}
	if d.History, err = jobs.HistoryPage(q.ctx, id, 0, shownHistory); err != nil {
		return page{}, err
	}
	if d.Log, err = jobs.Log(q.ctx, id); err != nil {
		return page{}, err
	}
	q.answers(&d)
	for _, related := range []struct {
		to *[]*sojourn.Job
		f  sojourn.Filter
	}{{&d.Parents, sojourn.Filter{ParentsOf: id}}, {&d.Children, sojourn.Filter{ChildrenOf: id}}, {&d.Awaited, sojourn.Filter{AwaitedBy: id}}} {
		related.f.Limit = shownRelated
		found, err := jobs.List(q.ctx, related.f)
		if err != nil && !refused(err) {
			return page{}, err
		}
		*related.to = found.Items
	}
	if j.Waiting != nil {
		d.Keys = slices.DeleteFunc(slices.Clone(j.Waiting.Keys), func(k string) bool { return slices.Contains(j.Waiting.Answered, k) })
	}
	for k, v := range j.Meta {
		d.Meta = append(d.Meta, k+" = "+v)
	}
	slices.Sort(d.Meta)
	d.Ended = cmp.Or(j.FinishedAt, time.Now())
	d.Timeline = timeline(j, d.History, d.Ended)
	return page{name: "job", title: fmt.Sprintf("Job %d", id), nav: "jobs", live: 1, data: d}, nil
}

// answers reads the responses of a job, which need the verb read:args.
func (q *request) answers(d *jobData) {
	found, err := q.who.client.Inbox().List(q.ctx, sojourn.InboxFilter{Job: d.Job.ID, Limit: shownAnswers})
	d.Answers = found.Items
	switch {
	case refused(err):
		d.NoAnswers = "Your token may not see responses: they need the verb read:args."
	case err != nil:
		d.NoAnswers = message(err)
	case len(d.Answers) == 0:
		d.NoAnswers = "No response has come for this job."
	}
}

// Lead says in a sentence why a live job waits.
func (d jobData) Lead() string {
	w := d.Why
	switch {
	case d.Job.State == sojourn.Running:
		return "It runs on worker " + d.Job.Worker + "."
	case d.Job.State == sojourn.Awaiting && len(w.Keys) > 0:
		return "It waits for a response with the key " + strings.Join(w.Keys, " or ") + "."
	case strings.HasPrefix(w.Waits, "for ") || strings.HasPrefix(w.Waits, "behind "):
		return "It waits " + w.Waits + "."
	case w.Waits == "":
		return "It is " + d.Job.State.String() + "."
	}
	return "It is held back: " + w.Waits + "."
}

// Held reports whether a gate holds the job back.
func (d jobData) Held() bool {
	return slices.ContainsFunc(d.Why.Gates, func(g sojourn.Gate) bool { return !g.Open })
}

// commands are the actions on a job for a shell. They have only its id, which needs no quotes.
func commands(j *sojourn.Job) []command {
	curl := func(path, body string) string {
		return `curl -X POST "$SOJOURN_URL` + path + `" -H "Authorization: Bearer $SOJOURN_TOKEN" -H 'Content-Type: application/json' -d '` + body + `'`
	}
	edit := func(action string) string {
		return curl("/v1/jobs/edit", fmt.Sprintf(`{"filter":{"ids":[%d]},"edit":{"action":%q}}`, j.ID, action))
	}
	list := []command{{"Show", fmt.Sprintf("sojourn job get %d", j.ID), fmt.Sprintf(`curl "$SOJOURN_URL/v1/jobs/%d" -H "Authorization: Bearer $SOJOURN_TOKEN"`, j.ID)}}
	switch {
	case !j.State.Final():
		list = append(list, command{"Why", fmt.Sprintf("sojourn why %d", j.ID), fmt.Sprintf(`curl "$SOJOURN_URL/v1/jobs/%d/why" -H "Authorization: Bearer $SOJOURN_TOKEN"`, j.ID)},
			command{"Answer", fmt.Sprintf(`sojourn respond --job %d --body '{}'`, j.ID), curl("/v1/responses", fmt.Sprintf(`{"job":%d,"message_id":"curl-%[1]d-%d","body":{}}`, j.ID, j.Epoch))},
			command{"Cancel", fmt.Sprintf("sojourn job cancel %d", j.ID), edit("cancel")})
	case j.State != sojourn.Completed:
		list = append(list, command{"Redrive", fmt.Sprintf("sojourn job redrive %d", j.ID), edit("redrive")})
	}
	return list
}

// segment is a part of the timeline, in thousandths of its width.
type segment struct {
	X, Width int
	State    string
	Text     string
}

// timeline turns the history into consecutive segments from the enqueue to the end: what state the
// job was in between two entries, and its steps.
func timeline(j *sojourn.Job, history []sojourn.HistoryEntry, end time.Time) []segment {
	span := end.Sub(j.CreatedAt)
	if span <= 0 {
		return nil
	}
	at := func(t time.Time) int { return int(max(0, min(1000*float64(t.Sub(j.CreatedAt))/float64(span), 1000))) }
	var out []segment
	add := func(from, to time.Time, state, text string) {
		x, to1000 := at(from), at(to)
		if to.Before(from) {
			return
		}
		out = append(out, segment{X: x, Width: max(to1000-x, 2), State: state, Text: text + ", " + plain.Duration(to.Sub(from))})
	}
	from, state := j.CreatedAt, "ready"
	if j.OrigRunAt.After(j.CreatedAt) {
		state = "scheduled"
	}
	for _, h := range history {
		until := cmp.Or(h.BeganAt, h.EndedAt)
		add(from, until, state, state)
		if !h.BeganAt.IsZero() {
			add(h.BeganAt, h.EndedAt, "running", fmt.Sprintf("attempt %d: %s", h.Attempt, h.Outcome))
		}
		from, state = h.EndedAt, h.State.String()
	}
	if !j.State.Final() {
		if j.State == sojourn.Running && !j.StartedAt.IsZero() {
			add(from, j.StartedAt, state, state)
			from = j.StartedAt
		}
		add(from, end, j.State.String(), j.State.String())
	}
	return out
}

// download sends args, result or checkpoint of a job as a file. The bytes are of the outside, so a
// browser must not show them.
func download(q *request) (page, error) {
	id, err := q.jobID()
	if err != nil {
		return page{}, err
	}
	j, err := q.who.client.Get(q.ctx, id)
	if err != nil {
		return page{}, err
	}
	b, ok := map[string][]byte{"args": j.Args, "result": j.Result, "checkpoint": j.Checkpoint}[q.r.PathValue("part")]
	if !ok || !q.can(access.VerbReadArgs, j.Queue, j.Kind) {
		return page{}, sojourn.NotFound("job %d has no such part", id)
	}
	h := q.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="job-%d-%s"`, id, q.r.PathValue("part")))
	h.Set("Content-Length", strconv.Itoa(len(b)))
	q.w.WriteHeader(http.StatusOK)
	_, _ = q.w.Write(b)
	return page{}, nil
}

// formJob is the job that a form is about.
func (q *request) formJob() (sojourn.ID, string, error) {
	n, err := strconv.ParseInt(q.get("job"), 10, 64)
	if err != nil || n < 1 {
		return 0, "", sojourn.Invalid("job", "%.64q is not the id of a job", q.get("job"))
	}
	return sojourn.ID(n), "jobs/" + sojourn.ID(n).String() + "?done=", nil
}

// doAnswer stores a response that a person has written.
func doAnswer(q *request) (string, error) {
	id, to, err := q.formJob()
	if err != nil {
		return "", err
	}
	r := sojourn.Response{Job: id, Source: "web", MessageID: q.get("message"), Body: []byte(q.r.PostForm.Get("body")), ContentType: q.get("type")}
	if key := q.r.PostForm.Get("key"); key != "" {
		r.Job, r.Kind, r.Key = 0, q.get("kind"), key
	}
	if q.get("failed") != "" {
		r.Failed, r.Reason = true, cmp.Or(q.get("reason"), "answered by hand")
	}
	if r.ContentType == "application/json" && !json.Valid(r.Body) {
		return "", sojourn.Invalid("body", "the body is not JSON; correct it, or choose plain text. Nothing was stored")
	}
	_, err = q.who.client.Respond(q.ctx, &r)
	return to + "answered", err
}

// doRedrive runs a job again. The generation in the form makes a second click harmless.
func doRedrive(q *request) (string, error) {
	id, to, err := q.formJob()
	if err != nil {
		return "", err
	}
	generation, _ := strconv.ParseInt(q.get("generation"), 10, 32)
	_, err = q.who.client.Jobs().Edit(q.ctx, id, sojourn.Edit{Action: sojourn.EditRedrive, Generation: int32(generation), Reason: q.get("why")})
	return to + "redriven", err
}

func doCancel(q *request) (string, error) {
	id, to, err := q.formJob()
	if err != nil {
		return "", err
	}
	_, err = q.who.client.Jobs().Edit(q.ctx, id, sojourn.Edit{Action: sojourn.EditCancel, Reason: q.get("why"), Dependents: q.get("dependents")})
	return to + "cancelled", err
}

// doEdit changes priority, tags and run time. Fields that were left as they were change nothing.
func doEdit(q *request) (string, error) {
	id, to, err := q.formJob()
	if err != nil {
		return "", err
	}
	e := sojourn.Edit{Action: sojourn.EditChange, Reason: q.get("why")}
	if text := q.get("priority"); text != "" && text != q.get("was_priority") {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return "", sojourn.Invalid("priority", "%.64q is not a whole number; nothing was changed", text)
		}
		p := int32(n)
		e.Priority = &p
	}
	if text := q.get("tags"); text != q.get("was_tags") {
		tags := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' || r == '\r' })
		if tags == nil {
			tags = []string{}
		}
		e.Tags = &tags
	}
	switch text := q.get("run_at"); {
	case q.get("now") != "":
		none := time.Duration(0)
		e.Delay = &none
	case text != "":
		at, err := filter.ParseTime(text)
		if err != nil {
			return "", sojourn.Invalid("run_at", "%.64q is not a time such as 2026-01-31T14:00 (UTC); nothing was changed", text)
		}
		e.RunAt = &at
	}
	_, err = q.who.client.Jobs().Edit(q.ctx, id, e)
	return to + "changed", err
}

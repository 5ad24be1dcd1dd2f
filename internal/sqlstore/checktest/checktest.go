// Package checktest plants violations of the invariants in a store, one at a time, and checks that
// the doctor finds them.
package checktest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/workflow"
)

// every has a job in each state of the kernel, with the ids that the planted violations name.
type every struct {
	ready, scheduled, running, awaiting, errored, resumed, completed, failed sojourn.ID
}

// build fills a new store through the public calls. Doctor finds nothing in it.
func build(t *testing.T, c *sojourn.Client) every {
	t.Helper()
	ctx := context.Background()
	add := func(kind, key string, o ...sojourn.Option) sojourn.ID {
		t.Helper()
		e, err := c.Enqueue(ctx, sojourn.NewJob(kind, []byte(`{}`), append(o, sojourn.Key(key))...))
		if err != nil {
			t.Fatal(err)
		}
		return e.ID
	}
	claim := func(kind string) sojourn.Lease {
		t.Helper()
		jobs, err := driver.Of(c).Claim(ctx, driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{kind}, Decidable: []string{"errored"}, Max: 1, Capacity: 1, Lease: time.Hour})
		if err != nil || len(jobs) != 1 {
			t.Fatal(kind, jobs, err)
		}
		return jobs[0].Lease
	}
	finish := func(l sojourn.Lease, o sojourn.Outcome) {
		t.Helper()
		o.Lease = l
		if f, err := driver.Of(c).Finish(ctx, []sojourn.Outcome{o}); err != nil || f[0].Status != driver.FinishApplied {
			t.Fatal(f, err)
		}
	}
	respond := func(kind, key string, failed bool) {
		t.Helper()
		if _, err := c.Respond(ctx, &sojourn.Response{Kind: kind, Key: key, Failed: failed}); err != nil {
			t.Fatal(err)
		}
	}
	await := sojourn.Outcome{Type: sojourn.OutcomeAwait}
	e := every{ready: add("ready", "a"), scheduled: add("scheduled", "b", sojourn.Delay(time.Hour), sojourn.Deadline(48*time.Hour)),
		running: add("running", "c"), awaiting: add("awaiting", "d"), errored: add("errored", "e"), resumed: add("resumed", "f"),
		completed: add("completed", "g"), failed: add("failed", "h")}
	l := claim("running")
	text := "half"
	if errs, err := driver.Of(c).Save(ctx, []driver.Saved{{Lease: l, Checkpoint: []byte("1"), Progress: &text, Log: []sojourn.LogLine{{Text: "line"}}}}); err != nil || errs[0].Err != nil {
		t.Fatal(errs, err)
	}
	respond("running", "c", false) // attached
	finish(claim("awaiting"), await)
	finish(claim("errored"), await)
	respond("errored", "e", true)
	finish(claim("resumed"), await)
	respond("resumed", "f", false)
	finish(claim("completed"), sojourn.Outcome{Type: sojourn.OutcomeCompleted})
	finish(claim("failed"), sojourn.Outcome{Type: sojourn.OutcomeAbort})
	respond("nobody", "early", false)
	buildLimited(t, c)
	buildIndexed(t, c)
	buildSchedule(t, c)
	buildWorkflows(t, c)
	add("blocked", "j", sojourn.DependsOn(e.ready))
	return e
}

// buildLimited adds a queue with a limit: two of its jobs run, a third one waits.
func buildLimited(t *testing.T, c *sojourn.Client) {
	t.Helper()
	ctx := context.Background()
	if err := c.Queues().Set(ctx, "limited", sojourn.QueueSettings{Limit: 2}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.Enqueue(ctx, sojourn.NewJob("limited", nil, sojourn.Queue("limited"))); err != nil {
			t.Fatal(err)
		}
	}
	r := driver.ClaimRequest{Worker: "w", Queues: []string{"limited"}, Kinds: []string{"limited"}, Max: 3, Capacity: 3, Lease: time.Hour}
	if jobs, err := driver.Of(c).Claim(ctx, r); err != nil || len(jobs) != 2 {
		t.Fatal(jobs, err)
	}
}

// buildIndexed adds a queue that indexes a path of its only job.
func buildIndexed(t *testing.T, c *sojourn.Client) {
	t.Helper()
	if err := c.Queues().Set(t.Context(), "indexed", sojourn.QueueSettings{Index: []string{"args.c"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(t.Context(), sojourn.NewJob("indexed", []byte(`{"c": 1}`), sojourn.Queue("indexed"))); err != nil {
		t.Fatal(err)
	}
}

// buildSchedule adds a schedule that has made a job.
func buildSchedule(t *testing.T, c *sojourn.Client) {
	t.Helper()
	d := schedule.Schedule{Name: "daily", Cron: "@daily", Job: sojourn.NewJob("ticks", nil, sojourn.Queue("ticks"))}
	if _, err := schedule.Of(c).Set(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if _, err := schedule.Of(c).RunNow(t.Context(), d.Name); err != nil {
		t.Fatal(err)
	}
}

// buildWorkflows adds a workflow that is over, with its callback, and one that goes on.
func buildWorkflows(t *testing.T, c *sojourn.Client) {
	t.Helper()
	job := func() *sojourn.Job { return sojourn.NewJob("flows", nil, sojourn.Queue("flows")) }
	for _, name := range []string{"over", "goes-on"} {
		w := workflow.New(name).Add("first", job()).OnEnd(sojourn.NewJob("end", nil, sojourn.Queue("flows")))
		if name == "goes-on" {
			w.Add("second", job(), workflow.After("first"))
		}
		if _, err := workflow.Of(c).Start(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		jobs, err := driver.Of(c).Claim(t.Context(), driver.ClaimRequest{Worker: "w", Queues: []string{"flows"}, Kinds: []string{"flows"}, Max: 1, Capacity: 1, Lease: time.Hour})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		if name == "over" {
			if _, err := driver.Of(c).Finish(t.Context(), []sojourn.Outcome{{Lease: jobs[0].Lease, Type: sojourn.OutcomeCompleted}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := driver.Of(c).Sweep(t.Context(), 100); err != nil { // it adds the ends up
		t.Fatal(err)
	}
}

// plants break one invariant each. $1 is a job that is ready, and blob() bytes that are empty.
var plants = map[string]string{
	"job-in-one-place":      `delete from sj_live where id = $1`,
	"live-has-job":          `delete from sj_job where id = $1`,
	"final-has-job":         `delete from sj_job where id = (select min(id) from sj_final where state = 7)`,
	"tags-listed":           `update sj_job set tags = '["a"]' where id = $1`,
	"field-has-job":         `insert into sj_field (queue, path, value, job) values ('indexed', 'args.c', '1', 9000000000000000000)`,
	"fields-indexed":        `update sj_field set value = '2' where queue = 'indexed'`,
	"tag-has-job":           `insert into sj_tag (tag, job, tagged_us) values ('a', 9000000000000000000, 0)`,
	"live-state":            `update sj_live set state = 7 where id = $1`,
	"final-state":           `update sj_final set state = 3 where state = 7`,
	"lease-iff-running":     `update sj_live set lease_until_us = 0 where state = 4`,
	"held-iff-in-flight":    `update sj_live set held = 0 where state = 5`,
	"resumed-is-ready":      `update sj_live set resumed = 1 where state = 2`,
	"wakes-up":              `update sj_live set wake_at_us = 9223372036854775807 where state = 5`,
	"wakes-in-time":         `update sj_live set wake_at_us = run_at_us + 1 where state = 2`,
	"nothing-overdue":       `update sj_live set wake_at_us = 1 where state = 2`,
	"key-of-live-job":       `delete from sj_key where job = $1`,
	"key-has-live-job":      `update sj_key set live = 1 where kind = 'completed'`,
	"past-key-holder-final": `insert into sj_key_past select kind, key, job from sj_key where kind = 'completed'`,
	"one-live-job-per-key":  `update sj_live set kind = 'ready', key = 'a' where state = 2`,
	"counters":              `update sj_live set failures = attempt + 1 where state = 5`,
	"attempt-open":          `update sj_live set attempt_open = 0 where state = 5`,
	"kept-count":            `update sj_live set kept = 0 where state = 4`,
	"in-hand-count":         `update sj_live set in_hand = 0 where resumed = 1`,
	"in-hand-applied":       `update sj_response set outcome = 4 where in_hand = 1`,
	"no-lost-wake-up":       `update sj_response set job = (select id from sj_live where state = 5), key = 'd' where outcome = 2 and job > 0`,
	"no-early-beside-await": `update sj_response set kind = 'awaiting', key = 'd' where outcome = 2 and job = 0`,
	"kept-by-live":          `update sj_response set job = (select min(id) from sj_final where state = 7) where outcome = 2 and job > 0`,
	"response-outcome":      `update sj_response set outcome = 3 where outcome = 2 and job = 0`,
	"early-expires":         `update sj_response set expires_us = 0 where outcome = 2 and job = 0`,
	"message-of-response":   `delete from sj_message`,
	"history-gapless":       `update sj_history set seq = seq + 10`,
	"history-count-live":    `update sj_live set history = history + 1 where state = 5`,
	"history-count-final":   `update sj_final set history = 0 where state = 7`,
	"one-end-per-lease":     `update sj_history set epoch = 1 where epoch = 0`,
	"no-overlap": `insert into sj_history (job, seq, generation, attempt, epoch, purpose, worker, outcome, state, stage, reason, error, by_whom, began_us, ended_us)
		select id, history + 1, generation, attempt, step_epoch + 1, purpose, worker, outcome, state, stage, reason, error, by_whom, began_us - 1, finished_us from sj_final`,
	"epoch-known":         `update sj_final set epoch = 0 where state = 7`,
	"blocked-counts":      `update sj_live set waits_for = waits_for + 1 where state = 1`,
	"edge-ends":           `update sj_live set dependents = 0 where id in (select parent from sj_edge)`,
	"edge-has-job":        `insert into sj_edge (child, parent, on_failure, on_stage, open) values (999, $1, 0, 0, 0)`,
	"child-has-parent":    `insert into sj_child (parent, generation, stage, name, child) values (999, 1, 0, 'a', $1)`,
	"queue-exists":        `delete from sj_queue`,
	"id-was-leased":       `update sj_meta set value = '1' where name = 'next_id'`,
	"limit-kept":          `update sj_queue set max_weight = 1 where name = 'limited'`,
	"flight-counted":      `update sj_live set lane = '' where queue = 'limited' and held > 0`,
	"flight-summed":       `update sj_landed set held = held + 1 where queue = 'limited'`,
	"flight-known":        `delete from sj_landed where queue = 'limited'`,
	"lane-of-job":         `update sj_live set lane = '0' where queue = 'limited' and state = 3`,
	"counts-kept":         `update sj_count set ready = ready + 1 where queue = 'limited'`,
	"token-of-server":     `insert into sj_access (id, name, hash, grants, created_us, expires_us, revoked_us, used_us) values ('t', 't', blob(), '[]', 1, 1, 0, 0)`,
	"schedule-has-tick":   `update sj_schedule set due_us = 9223372036854775807`,
	"tick-has-job":        `update sj_tick set job = 999`,
	"workflow-counts":     `update sj_workflow set total = total + 1`,
	"workflow-over":       `update sj_workflow set end_job = 0 where state = 7`,
	"member-has-workflow": `delete from sj_member where state = 0 and job in (select id from sj_live)`,
	"rows-have-job":       `update sj_history set job = 999 where job = (select max(job) from sj_history)`,
}

// Run plants each violation in a copy of a store. c is a client of the new store that is copied,
// and is closed before the first copy. sick returns a copy after it has run a statement behind the
// store's back; it fails if the statement has changed nothing. A check that no plant covers fails
// the test.
func Run(t *testing.T, c *sojourn.Client, blob string, sick func(t *testing.T, plant string) driver.Checker) {
	e := build(t, c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	find := func(t *testing.T, plant string) (names []string) {
		t.Helper()
		found, err := sick(t, plant).Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range found {
			names = append(names, v.Check)
		}
		return names
	}
	if found := find(t, ""); len(found) != 0 {
		t.Fatalf("a healthy store is reported: %v", found)
	}
	for _, name := range (&sqlstore.Store{}).Checks() {
		t.Run(name, func(t *testing.T) {
			plant, ok := plants[name]
			if !ok {
				t.Fatal("no violation is planted for this check")
			}
			plant = strings.ReplaceAll(strings.ReplaceAll(plant, "$1", strconv.Itoa(int(e.ready))), "blob()", blob)
			if found := find(t, plant); !slices.Contains(found, name) {
				t.Errorf("planted %q; doctor reports %v", plant, found)
			}
		})
	}
}

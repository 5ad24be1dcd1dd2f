package outage

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// kind of the jobs. They never fail here for having been interrupted often: one that is not
// completed at the end is stuck.
var ask = sojourn.Kind[int]{Name: "ask", Policy: sojourn.Policy{MaxAttempts: sojourn.Unlimited, MaxCrashes: sojourn.Unlimited,
	Backoff: sojourn.Backoff{First: -1}}}

// sourceName is that of the source under test.
const sourceName = "outside"

// message is a message of the outside system.
type message struct {
	id   string // the sender's: equal for the copies of one answer
	send string // of this sending: a broker that knows such a thing takes it once
	body string
}

func key(i int) string { return fmt.Sprintf("order-%d", i) }

func answer(key string, i int) string { return fmt.Sprintf(`{"order":%q,"answer":%d}`, key, 7*i) }

// plan holds the messages of one run: first the early ones, sent before their jobs exist, then all
// others, shuffled.
type plan struct {
	jobs, unknown, broken, twice int
	early, rest                  []message
}

func newPlan(jobs int, random *rand.Rand) plan {
	p := plan{jobs: jobs, unknown: max(jobs/100, 1), broken: max(jobs/100, 1), twice: max(jobs/50, 1)}
	order := random.Perm(jobs)
	early := max(jobs/100, 1)
	for n, i := range order {
		m := message{id: fmt.Sprintf("evt-%d", i), body: answer(key(i), i)}
		if n < early {
			p.early = append(p.early, m)
		} else {
			p.rest = append(p.rest, m)
		}
		if n%(jobs/p.twice) == 0 && n/(jobs/p.twice) < p.twice {
			p.rest = append(p.rest, m)
		}
	}
	for i := range p.unknown {
		p.rest = append(p.rest, message{id: fmt.Sprintf("evt-unknown-%d", i), body: answer(fmt.Sprintf("nobody-%d", i), i)})
	}
	for i := range p.broken {
		p.rest = append(p.rest, message{id: fmt.Sprintf("evt-broken-%d", i), body: fmt.Sprintf(`{"order":"order-%d","answer":`, i)})
	}
	random.Shuffle(len(p.rest), func(i, j int) { p.rest[i], p.rest[j] = p.rest[j], p.rest[i] })
	for when, part := range [][]message{p.early, p.rest} {
		for i := range part {
			part[i].send = fmt.Sprintf("%s/%d/%d", part[i].id, when, i)
		}
	}
	return p
}

func (p plan) messages() int { return len(p.early) + len(p.rest) }

// stored is how many responses there are in the end: duplicates are none.
func (p plan) stored() int { return p.jobs + p.unknown + p.broken }

// audit holds the store against the plan: every job completed with its own answer, every answer
// applied once, and every other message in the inbox under its right outcome. resent is how many
// messages may have been sent twice because the broker died before it said that it has them.
func (p plan) audit(t *testing.T, c *sojourn.Client, resent int) {
	t.Helper()
	p.auditJobs(t, c)
	lies := inbox(t, c)
	outcomes := map[sojourn.ResponseOutcome]int{}
	keys, bodies, duplicates := map[string]int{}, map[string]bool{}, 0
	for _, r := range lies {
		outcomes[r.Outcome]++
		duplicates += int(r.Duplicates)
		switch r.Outcome {
		case sojourn.Applied:
			keys[r.Key]++
		case sojourn.Parked:
			bodies[string(r.Body)] = true
			if r.Reason != "undecodable" {
				t.Errorf("parked as %s: %s", r.Reason, r.Error)
			}
		case sojourn.Early:
			var i int
			if n, _ := fmt.Sscanf(r.Key, "nobody-%d", &i); n != 1 || r.Job != 0 {
				t.Errorf("early: %s of job %d", r.Key, r.Job)
			}
		}
	}
	for k, n := range keys {
		if n != 1 {
			t.Errorf("%s was answered %d times", k, n)
		}
	}
	extra := outcomes[sojourn.Parked] - p.broken // one that was sent twice has two ids of the broker
	want := map[sojourn.ResponseOutcome]int{sojourn.Applied: p.jobs, sojourn.Early: p.unknown, sojourn.Parked: p.broken + extra}
	if !maps.Equal(outcomes, want) || extra < 0 || extra > resent || len(keys) != p.jobs || len(bodies) != p.broken {
		t.Errorf("in the inbox %v, want %v; %d jobs answered, %d different bodies parked", outcomes, want, len(keys), len(bodies))
	}
	if duplicates < p.twice {
		t.Errorf("%d duplicates counted, %d were sent", duplicates, p.twice)
	}
	t.Logf("%v, %d duplicates of which %d were sent as such", outcomes, duplicates, p.twice)
	found, err := c.Store().(driver.Checker).Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("doctor: %v %v", found, err)
	}
}

func (p plan) auditJobs(t *testing.T, c *sojourn.Client) {
	t.Helper()
	seen := 0
	for j, err := range c.Jobs().All(t.Context(), sojourn.Filter{Limit: sojourn.MaxFind, Full: true}) {
		if err != nil {
			t.Fatal(err)
		}
		var i int
		fmt.Sscanf(j.Key, "order-%d", &i)
		if want := answer(j.Key, i); j.State != sojourn.Completed || string(j.Result) != want {
			t.Errorf("job %d is %s with the result %s, want %s (%s: %s)", j.ID, j.State, j.Result, want, j.Reason, j.Error)
		}
		seen++
	}
	if seen != p.jobs {
		t.Errorf("there are %d jobs, %d were enqueued", seen, p.jobs)
	}
}

// inbox reads all responses.
func inbox(t *testing.T, c *sojourn.Client) (all []sojourn.Response) {
	t.Helper()
	for r, err := range c.Inbox().All(t.Context(), sojourn.InboxFilter{Source: sourceName, Limit: sojourn.MaxFind}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, *r)
	}
	return all
}

// enqueue stores the jobs in batches, in the order of their keys.
func (p plan) enqueue(ctx context.Context, c *sojourn.Client) error {
	all := make([]*sojourn.Job, p.jobs)
	for i := range all {
		all[i] = ask.New(i, sojourn.Key(key(i)))
	}
	for batch := range slices.Chunk(all, 500) {
		if _, err := c.EnqueueAll(ctx, batch...); err != nil {
			return err
		}
	}
	return nil
}

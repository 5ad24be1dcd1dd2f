package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/throttle"
)

// memorySource has the jobs of one kind in order.
type memorySource struct {
	jobs     []Candidate
	reserved bool // no job may be skipped for its weight
}

// jobsOf makes a job of each name, in order: its group and a number, or "-" for none. A digit after
// a colon is the weight, else 1.
func jobsOf(names string) (jobs []Candidate) {
	for i, name := range strings.Fields(names) {
		e := Candidate{jobrow.Candidate{ID: int64(i + 1), R2: int64(i), Weight: 1}, "kind", jobrow.LanePlain, sojourn.PurposeStart}
		name, weight, _ := strings.Cut(name, ":")
		if weight != "" {
			e.Weight = int64(weight[0] - '0')
		}
		switch {
		case e.Weight == 0:
			e.Lane = jobrow.LaneCritical
		case name != "-":
			e.Lane = jobrow.LaneGroup + name
		}
		jobs = append(jobs, e)
	}
	return jobs
}

func (m *memorySource) first(n int, fits func(e Candidate) bool) (found []Candidate, err error) {
	for _, e := range m.jobs {
		if len(found) < n && fits(e) {
			found = append(found, e)
		}
	}
	return found, nil
}

func (m *memorySource) Continuing(bool) ([]Candidate, error) { return nil, nil }
func (m *memorySource) Reserves(int64) (bool, error)         { return m.reserved, nil }
func (m *memorySource) Front(n int) ([]Candidate, error) {
	return m.first(n, func(Candidate) bool { return true })
}

func (m *memorySource) Groups(after, upTo string, except []string, n int) ([]string, error) {
	lanes := map[string]bool{}
	for _, e := range m.jobs {
		if e.Lane > after && e.Lane <= upTo && !slices.Contains(except, e.Lane) {
			lanes[e.Lane] = true
		}
	}
	found := slices.Sorted(maps.Keys(lanes))
	return found[:min(len(found), n)], nil
}

func (m *memorySource) Heads(lanes []string, n int) (all []Candidate, err error) {
	for _, lane := range lanes {
		heads, _ := m.Next(lane, jobrow.Candidate{}, n)
		all = append(all, heads...)
	}
	return all, nil
}

func (m *memorySource) Next(lane string, after jobrow.Candidate, n int) ([]Candidate, error) {
	return m.first(n, func(e Candidate) bool {
		return e.Lane == lane && (after.ID == 0 || jobrow.CompareCandidates(after, e.Candidate) < 0)
	})
}

func (m *memorySource) Describe(ids []int64) (map[int64]*throttle.Candidate, error) {
	found := map[int64]*throttle.Candidate{}
	for _, e := range m.jobs {
		if slices.Contains(ids, e.ID) {
			found[e.ID] = e.ForGates()
		}
	}
	return found, nil
}

// admissionOf is a claim of at most n jobs and weight 5 from a queue.
func admissionOf(m *memorySource, q sojourn.QueueSettings, n int) *Admission {
	now := time.Unix(1_000_000, 0).UTC()
	gates := &queueGates{Queue: "q", now: now.UnixMicro(), Row: txn.QueueRow{QueueSettings: q, Found: true}}
	gates.Flow = rules.Flow{Queue: "q", Now: now, Settings: q, Groups: map[string]int64{}}
	return newAdmission(gates, m, driver.ClaimRequest{Kinds: []string{"kind"}, Max: n, Capacity: 5})
}

// TestAdmission is the order in which the jobs of a queue with gates start, without a database.
func TestAdmission(t *testing.T) {
	fair := sojourn.QueueSettings{Fair: true}
	for _, c := range []struct {
		name     string
		settings sojourn.QueueSettings
		jobs     string
		max      int
		turn     string           // the group that had the last turn
		flight   map[string]int64 // weight in flight, by group
		reserved bool
		want     []int64
		heavy    bool
	}{
		{name: "one of each group in turn", settings: fair, jobs: "a a a b c b", max: 5, want: []int64{1, 4, 5, 2, 6}},
		{name: "after the group of the last turn", settings: fair, jobs: "a a b c", max: 3, turn: "a", want: []int64{3, 4, 1}},
		{name: "wraps around", settings: fair, jobs: "a b", max: 2, turn: "z", want: []int64{1, 2}},
		{name: "weight 0 comes first", settings: fair, jobs: "a b c:0", max: 2, want: []int64{3, 1}},
		{name: "a group at its limit is skipped", settings: sojourn.QueueSettings{GroupLimit: 1}, jobs: "a a b b", max: 4,
			flight: map[string]int64{"a": 1}, want: []int64{3}},
		{name: "a share ends a group's turns", settings: sojourn.QueueSettings{Limit: 4, Shares: map[string]float64{"a": .25, "b": .75}},
			jobs: "a a a b", max: 4, want: []int64{1, 4}},
		{name: "a group borrows after all had their turns", settings: sojourn.QueueSettings{Limit: 4, Borrow: true,
			Shares: map[string]float64{"a": .25, "b": .75}}, jobs: "a a a a b", max: 9, want: []int64{1, 5, 2, 3}},
		{name: "in order up to the limit", settings: sojourn.QueueSettings{Limit: 2}, jobs: "- - -", max: 3, want: []int64{1, 2}},
		{name: "weight 0 passes a full limit", settings: sojourn.QueueSettings{Limit: 2}, jobs: "- - - -:0", max: 9, want: []int64{1, 2, 4}},
		{name: "too heavy for the worker", settings: sojourn.QueueSettings{Limit: 9}, jobs: "- -:8 -", max: 1, want: []int64{1}},
		{name: "skips what is too heavy", settings: sojourn.QueueSettings{Limit: 9}, jobs: "-:8 -:8 -", max: 1, want: []int64{3}},
		{name: "keeps what must not be skipped", settings: sojourn.QueueSettings{Limit: 9}, jobs: "-:8 -", max: 1, reserved: true,
			want: []int64{2}, heavy: true},
	} {
		a := admissionOf(&memorySource{jobs: jobsOf(c.jobs), reserved: c.reserved}, c.settings, c.max)
		if c.turn != "" {
			a.Row.Flow.Turn = jobrow.LaneGroup + c.turn
		}
		for group, n := range c.flight {
			a.Flow.Groups[group], a.Flow.Used = n, a.Flow.Used+n
		}
		err := a.run()
		if got := admitted(a); err != nil || !slices.Equal(got, c.want) || (a.Heavy != nil) != c.heavy {
			t.Errorf("%s: jobs %v, heavy %v, %v; want %v, %v", c.name, got, a.Heavy, err, c.want, c.heavy)
		}
	}
}

func admitted(a *Admission) (ids []int64) {
	for _, e := range a.Admitted {
		ids = append(ids, e.ID)
	}
	return ids
}

// TestThrottleScanReachesEachJob: however many jobs of its group and of others are refused, a job
// is asked about after a bounded number of claims, each of which asks a bounded number of
// questions.
func TestThrottleScanReachesEachJob(t *testing.T) {
	const n = maxChecked + maxChecked/2 // of each group: more than one claim asks about
	for _, c := range []struct {
		name   string
		groups []string
		wanted []int64
	}{
		{"one group", []string{"a"}, []int64{1, jobsPerTurn + 1, maxChecked, maxChecked + 1, n}},
		{"two groups", []string{"a", "b"}, []int64{1, maxChecked, n, n + 1, n + jobsPerTurn + 1, n + maxChecked, 2 * n}},
	} {
		names := ""
		for _, group := range c.groups {
			names += strings.Repeat(group+" ", n)
		}
		m := &memorySource{jobs: jobsOf(names)}
		for _, wanted := range c.wanted {
			if err := scanFor(m, wanted); err != nil {
				t.Errorf("%s: job %d: %v", c.name, wanted, err)
			}
		}
	}
}

// scanFor runs claims of one job each, of which a throttler starts only the wanted one.
func scanFor(m *memorySource, wanted int64) error {
	asked := 0
	only := throttle.ThrottlerFunc(func(_ context.Context, c *throttle.Candidate, _ *throttle.Flight) (throttle.Admission, error) {
		asked++
		return throttle.Admission{Start: int64(c.ID) == wanted}, nil
	})
	own := &throttlers{Own: map[string]throttle.Throttler{"q": only}}
	most := len(m.jobs) / jobsPerTurn
	var cursor scanCursor
	for claims := 1; claims <= most; claims++ {
		a := admissionOf(m, sojourn.QueueSettings{Throttle: GoThrottler}, 1)
		p := own.begin("q", GoThrottler)
		a.throttle(p, &throttle.Flight{})
		a.cursor, asked = cursor, 0
		if err := a.run(); err != nil {
			return err
		}
		cursor = a.cursor
		switch {
		case asked > maxChecked:
			return fmt.Errorf("claim %d has asked %d questions, at most %d", claims, asked, maxChecked)
		case len(a.Admitted) > 0:
			return nil
		case a.Opens == 0 && p.over == nil:
			return errors.New("an empty claim does not say when to ask again")
		}
	}
	return fmt.Errorf("it was not asked about in %d claims", most)
}

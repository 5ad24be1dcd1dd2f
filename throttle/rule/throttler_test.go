package rule_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/throttle"
	"github.com/sojourn-queue/sojourn/throttle/rule"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// someFlight: 39 east running and 1 awaiting, of weight 1; one resumed north of weight 7.
func someFlight() *throttle.Flight {
	return &throttle.Flight{Now: now, Limit: 100, Loads: []throttle.FlightLoad{
		{Kind: "k", Group: "east", State: sojourn.Running, Load: throttle.Load{Jobs: 39, Weight: 39}},
		{Kind: "other", Group: "east", State: sojourn.Awaiting, Load: throttle.Load{Jobs: 1, Weight: 1}},
		{Kind: "k", Group: "north", State: sojourn.Ready, Load: throttle.Load{Jobs: 1, Weight: 7}},
	}, List: []throttle.FlightJob{
		{ID: 1, Kind: "k", Group: "east", State: sojourn.Running, Weight: 1, Priority: 100},
		{ID: 2, Kind: "other", Group: "east", State: sojourn.Awaiting, Weight: 1, Priority: 5},
		{ID: 3, Kind: "k", Group: "north", State: sojourn.Ready, Weight: 7, Priority: 100},
	}}
}

func someCandidate() *throttle.Candidate {
	return &throttle.Candidate{ID: 9, Kind: "k", Key: "order-1", Group: "north", Weight: 2, Priority: 50, Attempt: 1, Tags: []string{"a", "b"},
		Meta: map[string]string{"tenant": "t1"}, RunAt: now.Add(-time.Minute), CreatedAt: now.Add(-time.Hour)}
}

// TestThrottlerAnswers checks the fields that a rule reads of the candidate and of the jobs in
// flight, and its allowed results (spec:K5, spec:K6).
func TestThrottlerAnswers(t *testing.T) {
	for text, want := range map[string]throttle.Admission{
		`true`:  {Start: true},
		`false`: {},
		`kind == "k" && key == "order-1" && group == "north" && weight == 2 && priority == 50 && attempt == 1`: {Start: true},
		`"b" in tags && meta["tenant"] == "t1" && !("none" in meta)`:                                           {Start: true},
		`now - run_at == duration("60s") && created_at < run_at && now.getHours() == 12`:                       {Start: true},
		`limit == 100 && in_flight.jobs() == 41 && in_flight.weight() == 47`:                                   {Start: true},
		`in_flight.group("east").jobs() == 40 && in_flight.group("").jobs() == 0`:                              {Start: true},
		`in_flight.kind("k").group("east").weight() == 39`:                                                     {Start: true},
		`in_flight.state("awaiting").jobs() == 1 && in_flight.state("resumed").weight() == 7`:                  {Start: true},
		`in_flight.list().exists(j, j.id == 2 && j.priority < 10 && j.state == "awaiting" && j.weight == 1)`:   {Start: true},
		`in_flight.kind("k").list().size() == 2`:                                                               {Start: true},
		`in_flight.group(group).weight() + weight <= {"east": 40, "north": 30, "west": 30}[group]`:             {Start: true},
		`start()`:            {Start: true},
		`not_now("because")`: {Text: "because"},
		`weight > 1 ? not_before(now + duration("1h")) : start()`: {NotBefore: now.Add(time.Hour)},
		`fail("no " + group)`:                            {Fail: "no north"},
		`not_now() == not_now() && start() != not_now()`: {Start: true},
	} {
		r, err := rule.Throttler(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := r.Throttle(t.Context(), someCandidate(), someFlight()); err != nil || got != want {
			t.Errorf("%s: got %+v (%v), want %+v", text, got, err, want)
		}
	}
}

// TestThrottlerRefusesText: what does not compile is refused with line and column.
func TestThrottlerRefusesText(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "the rule is empty",
		" \n":                               "the rule is empty",
		"weight +":                          "1:9: ",
		"true &&\n  wieght < 3":             "2:3: undeclared reference to 'wieght'",
		"weight":                            "1:1: the rule gives int; it must give bool or verdict",
		"weight > 1 ? start() : false":      "1:12: ",
		`group < 3`:                         "1:7: found no matching overload",
		`in_flight.region("east").jobs()>1`: "1:17: undeclared reference to 'region'",
		`group.matches("(")`:                "error parsing regexp",
		strings.Repeat("(", 100) + "true":   "recursion",
		`"` + strings.Repeat("x", 8200) + `" == group`: "exceed the limit",
	} {
		_, err := rule.Throttler(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %q in it", text, err, want)
		}
		if code := sojourn.ErrorCode(err); code != sojourn.CodeInvalid && code != sojourn.CodeTooLarge {
			t.Errorf("%.60q: code %q", text, code)
		}
	}
}

// TestThrottlerFails: an error while evaluating is an error, never a start (inv:T5).
func TestThrottlerFails(t *testing.T) {
	for text, want := range map[string]string{
		`meta["none"] == ""`:                   "no such key: none",
		`weight / (weight - 2) > 1`:            "division by zero",
		`in_flight.state("runing").jobs() > 1`: "use running, awaiting or resumed",
		`fail("") == start()`:                  "wants a reason",
		`in_flight.list().all(a, in_flight.list().all(b, in_flight.list().all(c, a.id + b.id + c.id > 0)))`: "cost limit exceeded",
	} {
		r, err := rule.Throttler(text, rule.Cost(1000), rule.Budget(time.Minute))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		f := someFlight()
		for i := range sojourn.MaxFlight {
			f.List = append(f.List, throttle.FlightJob{ID: sojourn.ID(i + 10), Kind: "k"})
		}
		got, err := r.Throttle(t.Context(), someCandidate(), f)
		if err == nil || !strings.Contains(err.Error(), want) || got != (throttle.Admission{}) {
			t.Errorf("%s: got %+v, %v, want %q", text, got, err, want)
		}
	}
}

// TestThrottlerKeepsItsBudget: a rule that would run for minutes ends with its time budget, or with
// that of the caller.
func TestThrottlerKeepsItsBudget(t *testing.T) {
	f := someFlight()
	for i := range sojourn.MaxFlight {
		f.List = append(f.List, throttle.FlightJob{ID: sojourn.ID(i + 10), Kind: "k"})
	}
	const slow = `in_flight.list().all(a, in_flight.list().all(b, in_flight.list().all(c, a.id + b.id + c.id > 0)))`
	r, err := rule.Throttler(slow, rule.Cost(1<<60), rule.Budget(5*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Throttle(t.Context(), someCandidate(), f); err == nil || !strings.Contains(err.Error(), "took longer than 5ms") {
		t.Errorf("got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r, _ = rule.Throttler(slow, rule.Cost(1<<60), rule.Budget(time.Hour))
	if _, err := r.Throttle(ended, someCandidate(), f); err == nil {
		t.Error("a caller that has gone is not noticed")
	}
	for _, bad := range []rule.Option{rule.Cost(0), rule.Budget(0)} {
		if _, err := rule.Throttler("true", bad); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("got %v", err)
		}
	}
}

// TestThrottlerIsConcurrent: one rule, many claims; run it with -race.
func TestThrottlerIsConcurrent(t *testing.T) {
	r, err := rule.Throttlers()(`in_flight.group(group).list().size() < int(meta["max"])`)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			c := someCandidate()
			c.Meta = map[string]string{"max": fmt.Sprint(w)}
			for range 200 {
				if got, err := r.Throttle(context.Background(), c, someFlight()); err != nil || got.Start != (w > 1) {
					t.Errorf("max %d: got %+v, %v", w, got, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// FuzzThrottler: no text makes the compiler or a compiled rule panic or outlast its budget, and
// nothing but true and start() starts.
func FuzzThrottler(f *testing.F) {
	for _, text := range []string{`true`, `in_flight.group(group).weight() + weight <= 40`, `tags.exists(t, t == "a")`, `not_before(now + duration("1h"))`,
		`fail(meta["tenant"])`, `in_flight.list().map(j, j.kind)[0] == kind`, `weight / 0 == 1`, `[1,2,3].all(x, x < weight)`, `meta == {"a": "b"}`,
		`in_flight == in_flight`, `type(in_flight) == type(start())`, `string(now) == ""`, `dyn(in_flight) == 1`, `{in_flight: 1}.size() == 1`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := rule.Throttler(text, rule.Cost(10_000))
		if err != nil {
			if sojourn.ErrorCode(err) == "" {
				t.Fatalf("%q: an error without a code: %v", text, err)
			}
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		a, err := r.Throttle(ctx, someCandidate(), someFlight())
		switch {
		case ctx.Err() != nil:
			t.Fatalf("%q outlasts its budget", text)
		case err != nil && a != (throttle.Admission{}):
			t.Fatalf("%q: %+v beside %v", text, a, err)
		case err != nil && strings.Contains(err.Error(), "panicked"):
			t.Fatalf("%q: %v", text, err)
		}
	})
}

func BenchmarkThrottler(b *testing.B) {
	r, err := rule.Throttler(`in_flight.group(group).weight() + weight <= {"east": 40, "north": 30, "west": 30}[group]`)
	if err != nil {
		b.Fatal(err)
	}
	c, f := someCandidate(), someFlight()
	for b.Loop() {
		r.Throttle(b.Context(), c, f)
	}
}

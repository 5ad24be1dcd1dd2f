package triage

import (
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/store/retry"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var retryTrials = []kit.Trial{
	{Name: "a retry policy is tried on failed jobs", Law: "What it says about a failed job is what happens when the job runs with that policy, and it changes nothing.",
		Covers: "spec:R18", Run: triedPolicy},
	{Name: "a retry policy is tried on some jobs", Law: "It looks at so many groups and jobs as it is told, at those that failed since a time, and says what it left out.",
		Covers: "spec:R18", Run: triedBounds},
	{Name: "a tenant tries a retry policy", Law: "A token tries a policy on failed jobs that it may read.", Covers: "spec:R18 spec:H7", Run: triedByTenant},
}

// try tries a policy.
func try(s *kit.Scene, q retry.Query) retry.Report {
	s.Helper()
	groups(s)
	r, err := retry.Test(s.Ctx, sojourn.NewClient(s.Store), q)
	s.Must(err, "Test of a retry policy")
	return r
}

// tried wants the counts of a report: jobs, retried, same, earlier, other, extra, saved.
func tried(s *kit.Scene, what string, c retry.Counts, want string) {
	s.Helper()
	kit.Same(s, what, fmt.Sprint(c.Jobs, c.Retried, c.Same, c.Earlier, c.Other, c.Extra, c.Saved), want)
}

// failsUntil runs a job until it has failed, and returns the waits before its retries.
func failsUntil(s *kit.Scene, id sojourn.ID, text string) (delays []time.Duration) {
	s.Helper()
	for range 20 {
		_, err := s.Store.Finish(s.Ctx, []sojourn.Outcome{fails(s.Claim(), text)})
		s.Must(err, "Finish")
		j := s.Get(id)
		if j.State == sojourn.Failed {
			return delays
		}
		delays = append(delays, j.RunAt.Sub(s.Now()))
		s.Advance(delays[len(delays)-1])
		s.Sweep()
	}
	s.Fatalf("job %d does not fail", id)
	return nil
}

func triedPolicy(s *kit.Scene) {
	groups(s)
	id := s.Enqueue(sojourn.MaxAttempts(2), kit.Steady(time.Minute))
	kit.Same(s, "retries", len(failsUntil(s, id, "gateway busy")), 1)
	aborted := s.Enqueue()
	s.Finish(kit.Abort(s.Claim()), sojourn.Failed)
	before := fmt.Sprint(s.Get(id), s.Get(aborted))

	r := try(s, retry.Query{Policy: sojourn.Policy{MaxAttempts: 5}})
	tried(s, "five attempts", r.Total, "2 1 0 0 1 3 0")
	tried(s, "one attempt", try(s, retry.Query{Policy: sojourn.Policy{MaxAttempts: 1}}).Total, "2 0 0 1 1 0 1")
	tried(s, "two attempts", try(s, retry.Query{Policy: sojourn.Policy{MaxAttempts: 2, MaxCrashes: 9}}).Total, "2 0 1 0 1 0 0")
	kit.Same(s, "jobs", fmt.Sprint(s.Get(id), s.Get(aborted)), before)

	var predicted []time.Duration
	for _, g := range r.Groups {
		if g.Trials[0].Job == id {
			predicted = g.Trials[0].Delays
		}
	}
	s.Edited(id, sojourn.Edit{Action: sojourn.EditRedrive, Policy: &sojourn.Policy{MaxAttempts: 5}}, sojourn.Ready)
	delays := failsUntil(s, id, "gateway busy")
	kit.Same(s, "delays of the further attempts", fmt.Sprint(predicted), fmt.Sprint(delays[1:]))
	tried(s, "two attempts after five", try(s, retry.Query{Reason: "gateway", Policy: sojourn.Policy{MaxAttempts: 2}}).Total, "1 0 0 1 0 0 3")
}

func triedBounds(s *kit.Scene) {
	groups(s)
	failOne := func(text string) {
		id := s.Enqueue(sojourn.MaxAttempts(1))
		failsUntil(s, id, text)
	}
	failOne("first cause")
	s.Advance(time.Hour)
	start := s.Now()
	for range 3 {
		failOne("second cause")
	}
	s.Advance(time.Minute)
	failOne("third cause")

	q := retry.Query{Policy: sojourn.Policy{MaxAttempts: 2}}
	r := try(s, q)
	tried(s, "all", r.Total, "5 5 0 0 0 5 0")
	kit.Same(s, "groups", len(r.Groups), 3)
	q.Since = start
	r = try(s, q)
	kit.Same(s, "groups since then", fmt.Sprint(len(r.Groups), r.Total.Jobs, r.MoreGroups), "2 4 false")
	q.Jobs = 2
	r = try(s, q)
	kit.Same(s, "two jobs of each group", fmt.Sprint(r.Total.Jobs, r.Groups[0].More, r.Groups[1].More), "3 false true")
	q.Groups = 1
	r = try(s, q)
	kit.Same(s, "one group", fmt.Sprint(r.Groups[0].Pattern, ", ", len(r.Groups), " ", r.MoreGroups), "third cause, 1 true")
	q = retry.Query{Policy: q.Policy}
	s.Advance(23*time.Hour + 30*time.Minute)
	kit.Same(s, "the last day", try(s, q).Total.Jobs, 4)
	_, err := retry.Test(s.Ctx, sojourn.NewClient(s.Store), retry.Query{})
	s.Refused(err, sojourn.CodeInvalid, "no policy")
}

func triedByTenant(s *kit.Scene) {
	groups(s)
	failsUntil(s, s.Enqueue(sojourn.MaxAttempts(1)), "gateway busy")
	q := retry.Query{Policy: sojourn.Policy{MaxAttempts: 2}}
	mine := s.Tenant("a", access.Grant{Verbs: []access.Verb{access.VerbRead}, Queue: "default", Kind: "*"})
	kit.Same(s, "of its own queue", try(mine, q).Total.Jobs, 1)
	other := s.Tenant("b", access.Grant{Verbs: []access.Verb{access.VerbRead}, Queue: "other", Kind: "*"})
	kit.Same(s, "of another queue", try(other, q).Total.Jobs, 0)
}

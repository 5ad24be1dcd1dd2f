// Package triage has the cases about failure groups, stored operations and tags.
package triage

import (
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/fingerprint"
	"github.com/sojourn-queue/sojourn/store/failure"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return slices.Concat(failureTrials, operationTrials, retryTrials, tagTrials, joblogTrials)
}

var failureTrials = []kit.Trial{
	{Name: "failures are grouped by cause", Law: "Failures of one queue, kind and reason whose texts differ only in ids are one group, with exact counts.",
		Covers: "spec:R15", Run: grouped},
	{Name: "a group counts what is open", Law: "Open are the failed jobs of a group that were neither redriven nor purged, however often jobs have failed.",
		Covers: "spec:R15", Run: openCounts},
	{Name: "all kinds of failures are counted", Law: "Errors, timeouts, lost leases, deadlines and failures by hand are counted where they happen.",
		Covers: "spec:R15", Run: allFailures},
	{Name: "a filter by failure group", Law: "A filter by group finds its failed jobs, and live jobs whose last step failed with this cause.",
		Covers: "spec:R15", Run: filtered},
	{Name: "a group is muted", Law: "A muted group is left out of lists until the mute ends, and counts on.", Covers: "spec:R15", Run: mutes},
	{Name: "groups of tenants", Law: "A token sees, mutes and filters by only groups of queues and kinds that it may read.", Covers: "spec:R15 spec:H7", Run: groupsOfTenants},
	{Name: "the number of groups is bounded", Law: "Beyond the limit of a queue, failures of further causes are one group, with their open jobs.",
		Covers: "spec:R15", Run: boundedGroups},
	{Name: "groups are kept for some time", Law: "A group without failed jobs is deleted some time after its last failure; one with failed jobs stays.",
		Covers: "spec:R15", Run: groupsEnd},
	{Name: "jobs are found by their end", Law: "A filter by the time of the end finds final jobs that ended between the two times.", Covers: "spec:O12", Run: byEnd},
}

// groups are the calls about failure groups of a scene.
func groups(s *kit.Scene) failure.Failures {
	s.Helper()
	if _, ok := s.Store.(failure.Store); !ok {
		s.Skip("this store does not group failures")
	}
	return failure.Of(sojourn.NewClient(s.Store))
}

// list lists groups.
func list(s *kit.Scene, q failure.Query) []failure.Group {
	s.Helper()
	out, err := groups(s).List(s.Ctx, q)
	s.Must(err, "List of failure groups")
	return out
}

// one wants exactly one group.
func one(s *kit.Scene, q failure.Query) failure.Group {
	s.Helper()
	found := list(s, q)
	if len(found) != 1 {
		s.Fatalf("%d groups: %+v", len(found), found)
	}
	return found[0]
}

// counted wants the counts of a group: attempts, failed, open, retrying.
func counted(s *kit.Scene, id string, want string) failure.Group {
	s.Helper()
	g, err := groups(s).Get(s.Ctx, id)
	s.Must(err, "Get of group %s", id)
	kit.Same(s, "counts of "+g.Pattern, fmt.Sprint(g.Attempts, g.Failed, g.Open, g.Retrying), want)
	return g
}

// fails is an outcome with an error text.
func fails(c driver.Claimed, text string) sojourn.Outcome {
	o := kit.Failure(c)
	o.Reason, o.Text = "gateway", text
	return o
}

// failAll claims all jobs that are ready and fails each with a text.
func failAll(s *kit.Scene, text func(c driver.Claimed) string) (n int) {
	s.Helper()
	for {
		claimed := s.ClaimMany(kit.UpTo(1000))
		if len(claimed) == 0 {
			return n
		}
		outcomes := make([]sojourn.Outcome, len(claimed))
		for i, c := range claimed {
			outcomes[i] = fails(c, text(c))
		}
		_, err := s.Store.Finish(s.Ctx, outcomes)
		s.Must(err, "Finish")
		n += len(claimed)
	}
}

func grouped(s *kit.Scene) {
	groups(s)
	causes := fingerprint.Causes
	s.EnqueueMany(5*len(causes), sojourn.MaxAttempts(1))
	start := s.Now()
	failAll(s, func(c driver.Claimed) string {
		return fmt.Sprintf(causes[int(c.Job.ID)%len(causes)], c.Job.ID, fmt.Sprintf("%08x-1c2d-4abc-9def-%012x", int64(c.Job.ID)*7919, c.Job.ID))
	})
	found := list(s, failure.Query{})
	kit.Same(s, "groups", len(found), len(causes))
	attempts := int64(0)
	for _, g := range found {
		attempts += g.Attempts
		kit.Same(s, "failed, open of "+g.Pattern, fmt.Sprint(g.Failed, g.Open), fmt.Sprint(g.Attempts, g.Attempts))
		kit.Same(s, "address", fmt.Sprint(g.Queue, g.Kind, g.Reason), fmt.Sprint("default", kit.Kind, "gateway"))
		s.At("first", g.FirstAt, start)
		job := s.Get(g.Job)
		kit.Same(s, "error of the sample", g.Error, job.Error)
		kit.Same(s, "fingerprint of the sample", fingerprint.Of(g.Error), g.Pattern)
	}
	kit.Same(s, "attempts", attempts, int64(5*len(causes)))
	s.Sweep()
	kit.Same(s, "groups after a sweep", fmt.Sprint(list(s, failure.Query{})), fmt.Sprint(found))

	var walked []failure.Group
	for g, err := range groups(s).All(s.Ctx, failure.Query{Limit: 3}) {
		s.Must(err, "All")
		walked = append(walked, g)
	}
	kit.Same(s, "groups in pages", fmt.Sprint(walked), fmt.Sprint(found))
	kit.Same(s, "groups of another kind", len(list(s, failure.Query{Kind: "other"})), 0)
	kit.Same(s, "groups of the kind", len(list(s, failure.Query{Kind: kit.Kind, Queue: "default", Reason: "gateway", Open: true})), len(causes))
	_, err := groups(s).Get(s.Ctx, "0000000000000001")
	s.Is(err, sojourn.ErrNotFound, "Get of an unknown group")
	_, err = groups(s).Get(s.Ctx, "x")
	s.Refused(err, sojourn.CodeInvalid, "a bad id")
	_, err = groups(s).List(s.Ctx, failure.Query{After: "x"})
	s.Refused(err, sojourn.CodeInvalid, "a bad cursor")
}

func openCounts(s *kit.Scene) {
	groups(s)
	id := s.Enqueue(sojourn.MaxAttempts(2), kit.Steady(time.Minute))
	s.Finish(fails(s.Claim(), "order 1 is bad"), sojourn.Scheduled)
	g := one(s, failure.Query{})
	counted(s, g.ID, "1 0 0 1")
	s.Advance(time.Hour)
	s.Sweep()
	last := s.Now()
	s.Finish(fails(s.Claim(), "order 2 is bad"), sojourn.Failed)
	g = counted(s, g.ID, "2 1 1 0")
	s.At("last", g.LastAt, last)
	kit.Same(s, "sample", g.Error, "order 2 is bad")
	s.Edited(id, sojourn.Edit{Action: sojourn.EditChange, AddTags: &[]string{"seen"}}, sojourn.Failed)
	counted(s, g.ID, "2 1 1 0")
	s.Edited(id, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	counted(s, g.ID, "2 1 0 0")
	kit.Same(s, "open groups", len(list(s, failure.Query{Open: true})), 0)
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	counted(s, g.ID, "2 1 0 0")
	other := s.Enqueue(sojourn.MaxAttempts(1))
	s.Finish(fails(s.Claim(), "order 3 is bad"), sojourn.Failed)
	counted(s, g.ID, "3 2 1 0")
	s.Advance(sojourn.IDLife + time.Minute)
	s.Edit(other, sojourn.Edit{Action: sojourn.EditPurge})
	counted(s, g.ID, "3 2 0 0")
}

func allFailures(s *kit.Scene) {
	groups(s)
	lost := s.Enqueue()
	s.Claim()
	s.Advance(2 * time.Minute)
	s.Sweep()
	kit.Same(s, "reason", one(s, failure.Query{Reason: sojourn.ReasonLeaseLost}).Attempts, 1)
	s.Edited(lost, sojourn.Edit{Action: sojourn.EditFail, Reason: "no use"}, sojourn.Failed)
	g := one(s, failure.Query{Reason: "no use"})
	kit.Same(s, "attempts, failed", fmt.Sprint(g.Attempts, g.Failed), "0 1")
	s.Enqueue(sojourn.Deadline(time.Minute), sojourn.Delay(time.Hour))
	s.Advance(2 * time.Minute)
	s.Sweep()
	kit.Same(s, "deadlines", one(s, failure.Query{Reason: sojourn.ReasonDeadline}).Failed, 1)
	s.Enqueue()
	s.Finish(kit.Abort(s.Claim()), sojourn.Failed)
	g = one(s, failure.Query{Reason: "declined"})
	kit.Same(s, "attempts, failed after an abort", fmt.Sprint(g.Attempts, g.Failed), "1 1")
	s.Enqueue()
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	s.Cancel(s.Enqueue())
	kit.Same(s, "groups", len(list(s, failure.Query{})), 4)
}

func filtered(s *kit.Scene) {
	groups(s)
	ids := s.EnqueueMany(3, sojourn.MaxAttempts(1))
	failAll(s, func(c driver.Claimed) string {
		return fmt.Sprint("cause ", string(rune('a'+slices.Index(ids, c.Job.ID))))
	})
	retried := s.Enqueue(sojourn.MaxAttempts(3), kit.Steady(time.Minute))
	s.Finish(fails(s.Claim(), "cause a"), sojourn.Scheduled)
	var a failure.Group
	for _, g := range list(s, failure.Query{}) {
		if g.Pattern == "cause a" {
			a = g
		}
	}
	s.Finds(sojourn.Filter{Failure: a.ID}, ids[0], retried)
	s.Finds(sojourn.Filter{Failure: a.ID, States: []sojourn.State{sojourn.Failed}}, ids[0])
	s.Finds(sojourn.Filter{Failure: a.ID, Queue: "other"})
	s.Finds(sojourn.Filter{Failure: "0000000000000001"})
	edited, err := s.Store.Edit(s.Ctx, sojourn.Filter{Failure: a.ID, States: []sojourn.State{sojourn.Failed}}, sojourn.Edit{Action: sojourn.EditRedrive})
	s.Must(err, "Edit by group")
	kit.Same(s, "redriven", kit.Changed(edited), 1)
	s.State(ids[0], sojourn.Ready)
	s.State(ids[1], sojourn.Failed)
}

func mutes(s *kit.Scene) {
	groups(s)
	s.EnqueueMany(1, sojourn.MaxAttempts(1))
	failAll(s, func(driver.Claimed) string { return "known" })
	g := one(s, failure.Query{})
	muted, err := groups(s).Mute(s.Ctx, g.ID, failure.Mute{For: time.Hour, By: "ann", Reason: "ticket 7"})
	s.Must(err, "Mute")
	kit.Same(s, "muted", fmt.Sprintf("%v %s %s, open %d", muted.Muted, muted.MutedBy, muted.MuteReason, muted.Open), "true ann ticket 7, open 1")
	s.At("until", muted.MutedUntil, s.Now().Add(time.Hour))
	kit.Same(s, "groups", len(list(s, failure.Query{})), 0)
	s.EnqueueMany(1, sojourn.MaxAttempts(1))
	failAll(s, func(driver.Claimed) string { return "known" })
	kit.Same(s, "attempts", one(s, failure.Query{Muted: true}).Attempts, 2)
	kit.Same(s, "still muted", one(s, failure.Query{Muted: true}).Muted, true)
	s.Advance(time.Hour + time.Second)
	kit.Same(s, "muted", one(s, failure.Query{}).Muted, false)
	_, err = groups(s).Mute(s.Ctx, g.ID, failure.Mute{})
	s.Must(err, "Mute without an end")
	kit.Same(s, "groups", len(list(s, failure.Query{})), 0)
	_, err = groups(s).Mute(s.Ctx, g.ID, failure.Mute{Off: true})
	s.Must(err, "Mute off")
	kit.Same(s, "muted", one(s, failure.Query{}).Muted, false)
	_, err = groups(s).Mute(s.Ctx, g.ID, failure.Mute{For: -1})
	s.Refused(err, sojourn.CodeInvalid, "a negative time")
	_, err = groups(s).Mute(s.Ctx, "0000000000000001", failure.Mute{})
	s.Is(err, sojourn.ErrNotFound, "Mute of an unknown group")
}

func groupsOfTenants(s *kit.Scene) {
	groups(s)
	for _, queue := range []string{"ours", "theirs"} {
		s.Enqueue(sojourn.MaxAttempts(1), sojourn.Queue(queue))
		s.Finish(fails(s.Claim(kit.From(queue)), "the same cause"), sojourn.Failed)
	}
	kit.Same(s, "all groups", len(list(s, failure.Query{})), 2)
	theirs := one(s, failure.Query{Queue: "theirs"})
	reader := s.Tenant("reader", access.Grant{Verbs: []access.Verb{access.VerbRead}, Queue: "ours", Kind: "*"})
	operator := s.Tenant("operator", access.Grant{Verbs: []access.Verb{access.VerbRead, access.VerbOperate}, Queue: "ours", Kind: "*"})
	ours := one(reader, failure.Query{})
	kit.Same(s, "queue", ours.Queue, "ours")
	kit.Same(s, "groups of the other queue", len(list(reader, failure.Query{Queue: "theirs"})), 0)
	for _, tenant := range []*kit.Scene{reader, operator} {
		_, err := groups(tenant).Get(tenant.Ctx, theirs.ID)
		s.Is(err, sojourn.ErrNotFound, "Get of another tenant's group")
		_, err = groups(tenant).Mute(tenant.Ctx, theirs.ID, failure.Mute{})
		if code := sojourn.ErrorCode(err); code != sojourn.CodeNotFound && code != access.CodeScope {
			s.Errorf("Mute of another tenant's group: %v", err)
		}
	}
	_, err := groups(reader).Mute(reader.Ctx, ours.ID, failure.Mute{})
	s.Refused(err, access.CodeScope, "Mute by a reader")
	_, err = groups(operator).Mute(operator.Ctx, ours.ID, failure.Mute{})
	s.Must(err, "Mute")
	kit.Same(s, "muted", one(s, failure.Query{}).ID, theirs.ID)
}

func boundedGroups(s *kit.Scene) {
	groups(s)
	word := func(id sojourn.ID) string {
		var b []byte
		for n := int64(id); n > 0; n /= 20 {
			b = append(b, 'g'+byte(n%20)) // neither digits nor hexadecimal digits
		}
		return string(b)
	}
	s.EnqueueMany(failure.MaxGroups, sojourn.MaxAttempts(1))
	s.EnqueueMany(5, sojourn.MaxAttempts(1))
	seen := map[string]bool{}
	n := failAll(s, func(c driver.Claimed) string {
		text := "cause " + word(c.Job.ID)
		seen[text] = true
		return text
	})
	s.Sweep()
	total, open, other := int64(0), int64(0), 0
	for g, err := range groups(s).All(s.Ctx, failure.Query{Limit: 1000}) {
		s.Must(err, "All")
		total, open = total+g.Failed, open+g.Open
		if g.Other {
			other++
			kit.Same(s, "pattern of the others", g.Pattern, "")
			kit.Same(s, "open of the others", g.Open, g.Failed)
		}
	}
	kit.Same(s, "failed", total, int64(n))
	kit.Same(s, "open", open, int64(n))
	kit.Same(s, "groups of others", other, 1)
	kit.Same(s, "causes", len(seen), failure.MaxGroups+5)
}

func groupsEnd(s *kit.Scene) {
	groups(s)
	s.SetQueue("default", sojourn.QueueSettings{})
	id := s.Enqueue(sojourn.MaxAttempts(1))
	failAll(s, func(driver.Claimed) string { return "old" })
	s.Advance(failure.Keep / 2)
	s.Sweep()
	g := one(s, failure.Query{})
	s.Edited(id, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	s.Sweep()
	counted(s, g.ID, "1 1 0 0")
	s.Advance(failure.Keep)
	s.Sweep()
	kit.Same(s, "groups", len(list(s, failure.Query{Muted: true})), 0)
}

func byEnd(s *kit.Scene) {
	t0 := s.Now()
	var ids []sojourn.ID
	for range 3 {
		ids = append(ids, s.Enqueue())
		s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
		s.Advance(time.Minute)
	}
	live := s.Enqueue()
	s.Finds(sojourn.Filter{EndedAfter: t0.Add(30 * time.Second)}, ids[1], ids[2])
	s.Finds(sojourn.Filter{EndedBefore: t0.Add(30 * time.Second)}, ids[0])
	s.Finds(sojourn.Filter{EndedAfter: t0.Add(30 * time.Second), EndedBefore: t0.Add(90 * time.Second)}, ids[1])
	s.Finds(sojourn.Filter{EndedBefore: t0.Add(time.Hour), States: []sojourn.State{sojourn.Ready}})
	s.State(live, sojourn.Ready)
}

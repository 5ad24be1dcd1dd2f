package jobs

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var changeTrials = []kit.Trial{
	{Name: "change a waiting job", Law: "Blocked, scheduled, ready and errored jobs take new values, with the change in the history.",
		Covers: "tr:O5 spec:P9 spec:P7 spec:J4", Run: changeValues},
	{Name: "change run_at", Law: "A new run_at or delay makes the job scheduled or ready.", Covers: "tr:O5 spec:P9", Run: changeRunAt},
	{Name: "move to another queue", Law: "A job moves to another queue with its place there.", Covers: "tr:O5 spec:P1 spec:J22", Run: changeQueue},
	{Name: "rules:D1 no change while weight is held", Law: "A running, awaiting or resumed job is not changed, except for the priority of an awaiting one.",
		Covers: "tr:O5 rules:D1 rules:E4 spec:P9", Run: changeRefused},
	{Name: "change the priority of an awaiting job", Law: "An awaiting job takes a new priority at once, keeps its wait, and its next attempt starts by it.",
		Covers: "tr:O5 spec:P7 spec:P9", Run: changeAwaiting},
	{Name: "args only before the first claim", Law: "Args are changed only while the job was never claimed in this generation.",
		Covers: "tr:O5 rules:E4 spec:J4", Run: changeArgs},
	{Name: "tags of any job", Law: "Tags are changed also of final jobs; a list replaces the one before.", Covers: "tr:O5 spec:P4 spec:G1 spec:G3", Run: changeTags},
	{Name: "single tags", Law: "Single tags are added to and removed from jobs in any state; changes at the same time do not undo each other.",
		Covers: "tr:O5 spec:P4", Run: changeSingleTags},
	{Name: "repeat a Finish after new tags", Law: "A repeated Finish has the same answer after the tags of the final job have changed, and the history keeps its bound.",
		Covers: "tr:O5 tr:F12", Run: repeatAfterTags},
	{Name: "change the policy", Law: "The non-zero fields of a policy replace the job's; a new deadline counts from the change.",
		Covers: "tr:O5 spec:P9 spec:J19", Run: changePolicy},
	{Name: "change an errored job", Law: "A change leaves an errored job errored.", Covers: "tr:O5", Run: changeErrored},
}

func changeValues(s *kit.Scene) {
	p, w, g := int32(-7), int32(0), "Händler/9"
	a := []byte("new\x00args")
	for what, id := range kit.InOrder(map[string]sojourn.ID{"ready": s.Enqueue(), "scheduled": s.Enqueue(sojourn.Delay(time.Hour))}) {
		state := s.Get(id).State
		runAt := s.Get(id).RunAt
		s.Advance(time.Second)
		j := s.Change(id, sojourn.Edit{Priority: &p, Weight: &w, Group: &g, Args: &a, Tags: &[]string{"t"}}, state)
		kit.Same(s, what+": priority", j.Priority, p)
		kit.Same(s, what+": weight", j.Weight, w)
		kit.Same(s, what+": group", j.Group, g)
		kit.Same(s, what+": args", string(j.Args), string(a))
		kit.Same(s, what+": tags", len(j.Tags), 1)
		s.At(what+": run_at", j.RunAt, runAt)
		s.At(what+": updated_at", j.UpdatedAt, s.Now())
		e := s.Happened(id, "edited")[0]
		kit.Same(s, what+": by", e.By, "ops")
		kit.Same(s, what+": state in the history", e.State, state)
	}
	c := s.Claim(kit.Room(0)) // its weight is 0 now
	kit.Same(s, "claimed args", string(c.Job.Args), string(a))
}

func changeRunAt(s *kit.Scene) {
	id := s.Enqueue()
	when, now := s.Now().Add(time.Hour), s.Now().Add(-time.Hour)
	d, zero := 30*time.Minute, time.Duration(0)
	s.At("run_at", s.Change(id, sojourn.Edit{RunAt: &when}, sojourn.Scheduled).RunAt, when)
	s.Advance(time.Minute)
	s.At("run_at", s.Change(id, sojourn.Edit{Delay: &d}, sojourn.Scheduled).RunAt, s.Now().Add(d))
	s.Change(id, sojourn.Edit{RunAt: &now}, sojourn.Ready)
	s.Change(id, sojourn.Edit{Delay: &d}, sojourn.Scheduled)
	s.ClaimNone("it was put off")
	s.Change(id, sojourn.Edit{Delay: &zero}, sojourn.Ready)
	kit.Same(s, "job", s.Claim().Job.ID, id)
}

func changeQueue(s *kit.Scene) {
	a := s.Enqueue()
	s.Advance(time.Second)
	b := s.Enqueue(sojourn.Queue("other"))
	q := "other"
	kit.Same(s, "queue", s.Change(a, sojourn.Edit{Queue: &q}, sojourn.Ready).Queue, q)
	s.ClaimNone("it has moved")
	s.Order(s.Drain(kit.From("other")), []sojourn.ID{a, b})
	kit.Same(s, "jobs left behind", len(s.Queue(kit.Queue).Counts), 0)
	c := s.Enqueue()
	fresh := "brand-new"
	s.Change(c, sojourn.Edit{Queue: &fresh}, sojourn.Ready)
	kit.Same(s, "ready in the new queue", s.Queue(fresh).Counts[sojourn.Ready], 1)
}

func changeRefused(s *kit.Scene) {
	p, q := int32(7), "other"
	ids := map[string]sojourn.ID{"running": s.Running().Job.ID, "awaiting": s.Awaiting().Job.ID, "resumed": s.Resumed("k").Job.ID}
	for what, id := range kit.InOrder(ids) {
		before := s.Picture(id)
		changes := []sojourn.Edit{{Priority: &p, Weight: &p}, {Weight: &p}, {Queue: &q}, {Group: &q}, {Args: &[]byte{}}, {Policy: &sojourn.Policy{MaxAttempts: 9}}}
		if what != "awaiting" {
			changes = append(changes, sojourn.Edit{Priority: &p})
		}
		for _, c := range changes {
			c.Action = sojourn.EditChange
			item := s.Edit(id, c)
			s.Is(item.Err, sojourn.ErrConflict, "a change of a job that is "+what)
			kit.Same(s, "changed", item.Changed, false)
		}
		s.Unchanged(id, before, "a refused change")
	}
}

func changeAwaiting(s *kit.Scene) {
	key := sojourn.Key("k")
	c := s.Awaiting(key, kit.Steady(time.Minute))
	before := s.Get(c.Job.ID)
	p := int32(7)
	s.Advance(time.Second)
	j := s.Change(c.Job.ID, sojourn.Edit{Priority: &p, AddTags: &[]string{"urgent"}}, sojourn.Awaiting)
	kit.Same(s, "priority", j.Priority, p)
	kit.Same(s, "tags", strings.Join(j.Tags, " "), "urgent")
	s.At("wake_at", j.WakeAt, before.WakeAt)
	s.At("the end of the wait", j.Waiting.Until, before.Waiting.Until)
	e := s.History(c.Job.ID)
	last := e[len(e)-1]
	kit.Same(s, "the entry in the history", last.Outcome+" by "+last.By+" "+last.State.String(), "edited by ops awaiting")
	s.Respond("k")
	d := s.Claim()
	kit.Same(s, "the resumed job", d.Job.ID, c.Job.ID)
	kit.Same(s, "its priority", d.Job.Priority, p)
	s.Finish(kit.Failure(d), sojourn.Scheduled)
	other := s.Enqueue(sojourn.Priority(50))
	s.Advance(time.Minute)
	s.Order(s.Drain(), []sojourn.ID{c.Job.ID, other}) // 7 before 50; it had 100
}

func changeArgs(s *kit.Scene) {
	c := s.Running()
	s.Finish(kit.Released(c), sojourn.Ready)
	a := []byte("new")
	item := s.Edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditChange, Args: &a})
	s.Is(item.Err, sojourn.ErrConflict, "new args after a claim")
	kit.Same(s, "args", string(s.Get(c.Job.ID).Args), `{"order":42}`)
	p := int32(7)
	item = s.Edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditChange, Args: &a, Priority: &p})
	s.Is(item.Err, sojourn.ErrConflict, "new args and priority after a claim")
	kit.Same(s, "priority", s.Get(c.Job.ID).Priority, sojourn.DefaultPriority) // all or nothing
	s.Cancel(c.Job.ID)
	s.Edited(c.Job.ID, kit.RedriveEdit, sojourn.Ready)
	s.Change(c.Job.ID, sojourn.Edit{Args: &a}, sojourn.Ready)
	kit.Same(s, "args", string(s.Claim().Job.Args), "new")
}

func changeTags(s *kit.Scene) {
	c := s.Final(sojourn.Completed, sojourn.Tags("a", "b"))
	j := s.Change(c.Job.ID, sojourn.Edit{Tags: &[]string{"b", "c", "c"}}, sojourn.Completed)
	slices.Sort(j.Tags)
	if !slices.Equal(j.Tags, []string{"b", "c"}) {
		s.Fatalf("the tags are %v, want b and c", j.Tags)
	}
	for tag, want := range kit.InOrder(map[string]int{"a": 0, "b": 1, "c": 1}) {
		jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{Tag: tag})
		s.Must(err, "Find")
		kit.Same(s, "jobs with the tag "+tag, len(jobs), want)
	}
	s.Change(c.Job.ID, sojourn.Edit{Tags: &[]string{}}, sojourn.Completed)
	kit.Same(s, "tags", len(s.Get(c.Job.ID).Tags), 0)
	p := int32(7)
	item := s.Edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditChange, Tags: &[]string{"x"}, Priority: &p})
	s.Is(item.Err, sojourn.ErrConflict, "tags and more of a final job")
	kit.Same(s, "tags", len(s.Get(c.Job.ID).Tags), 0)
}

func changeSingleTags(s *kit.Scene) {
	final, running := s.Final(sojourn.Failed, sojourn.Tags("a", "b")), s.Running(sojourn.Tags("a", "b"))
	awaiting, plain := s.Awaiting(sojourn.Key("k"), sojourn.Tags("a", "b")), s.Enqueue(sojourn.Tags("a", "b"))
	for _, id := range []sojourn.ID{plain, running.Job.ID, awaiting.Job.ID, final.Job.ID} {
		before := s.Get(id)
		e := sojourn.Edit{Action: sojourn.EditChange, By: "ann", RemoveTags: &[]string{"a", "x"}, AddTags: &[]string{"c", "b"}}
		item := s.Edit(id, e)
		s.Must(item.Err, "edit of a job that is %s", before.State)
		kit.Same(s, "changed", item.Changed, true)
		kit.Same(s, "changed again", s.Edit(id, e).Changed, false)
		after := s.Get(id)
		kit.Same(s, "tags", strings.Join(after.Tags, " "), "b c")
		before.Tags, before.UpdatedAt = after.Tags, after.UpdatedAt
		kit.Same(s, "the rest of the job", kit.Text(after), kit.Text(before))
		entries, err := s.Store.History(s.Ctx, id, 0, 0)
		s.Must(err, "History")
		if len(entries) == 0 {
			s.Fatalf("a job that is %s has no history", before.State)
		}
		last := entries[len(entries)-1]
		kit.Same(s, "the last entry of a job that is "+before.State.String(), last.By+" "+last.Outcome, "ann edited")
		kit.Same(s, "state in the history", last.State, before.State)
		kit.Same(s, "worker and epoch of the entry", last.Worker+strconv.FormatInt(last.Epoch, 10), "0")
		many := make([]string, sojourn.MaxTags-1)
		for i := range many {
			many[i] = "t" + strconv.Itoa(i)
		}
		s.Refused(s.Edit(id, sojourn.Edit{Action: sojourn.EditChange, AddTags: &many}).Err, sojourn.CodeInvalid, "too many tags")
	}
	s.Finish(kit.Completed(running), sojourn.Completed) // the lease is still valid
	s.Happened(running.Job.ID, "edited", "completed")
	s.Happened(final.Job.ID, "abort", "edited")
	s.Edited(final.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	s.Happened(final.Job.ID, "abort", "edited", "redriven")
	var errs [10]error
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			add := []string{"p" + strconv.Itoa(i)}
			_, errs[i] = s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{plain}}, sojourn.Edit{Action: sojourn.EditChange, AddTags: &add})
		})
	}
	wg.Wait()
	s.Must(errors.Join(errs[:]...), "Edit")
	kit.Same(s, "tags after changes at the same time", len(s.Get(plain).Tags), 12)
}

func repeatAfterTags(s *kit.Scene) {
	c := s.Final(sojourn.Completed)
	s.Change(c.Job.ID, sojourn.Edit{AddTags: &[]string{"x"}}, sojourn.Completed)
	s.Reports(kit.Completed(c), driver.FinishRepeated)
	for range sojourn.MaxHistory + 2 { // the bound of a history holds
		s.Change(c.Job.ID, sojourn.Edit{AddTags: &[]string{"y"}}, sojourn.Completed)
		s.Change(c.Job.ID, sojourn.Edit{RemoveTags: &[]string{"y"}}, sojourn.Completed)
	}
}

func changePolicy(s *kit.Scene) {
	id := s.Enqueue(kit.Steady(time.Minute), sojourn.MaxAttempts(9))
	j := s.Change(id, sojourn.Edit{Policy: &sojourn.Policy{MaxAttempts: 1, Timeout: time.Hour}}, sojourn.Ready)
	kit.Same(s, "max_attempts", j.Policy.MaxAttempts, 1)
	kit.Same(s, "timeout", j.Policy.Timeout, time.Hour)
	kit.Same(s, "backoff", j.Policy.Backoff.First, time.Minute)
	s.Advance(10 * time.Minute)
	s.Change(id, sojourn.Edit{Policy: &sojourn.Policy{Deadline: time.Hour}}, sojourn.Ready)
	c := s.Claim()
	kit.Same(s, "timeout left", c.Timeout, time.Hour)
	kit.Same(s, "deadline left, counted from the change", c.Deadline, time.Hour)
	s.Finish(kit.Failure(c), sojourn.Failed)
}

func changeErrored(s *kit.Scene) {
	c := s.Errored()
	p := int32(7)
	kit.Same(s, "priority", s.Change(c.Job.ID, sojourn.Edit{Priority: &p}, sojourn.Errored).Priority, 7)
	kit.Same(s, "purpose", s.Claim(kit.Deciding).Purpose, sojourn.PurposeDecide)
}

package storetest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var changeTrials = []trial{
	{"change a waiting job", "Blocked, scheduled, ready and errored jobs take new values, with the change in the history.",
		"tr:O5 spec:P9 spec:P7 spec:J4", changeValues},
	{"change run_at", "A new run_at or delay makes the job scheduled or ready.", "tr:O5 spec:P9", changeRunAt},
	{"move to another queue", "A job moves to another queue with its place there.", "tr:O5 spec:P1 spec:J22", changeQueue},
	{"rules:D1 no change while weight is held", "A running, awaiting or resumed job is not changed, except for the priority of an awaiting one.", "tr:O5 rules:D1 rules:E4 spec:P9", changeRefused},
	{"change the priority of an awaiting job", "An awaiting job takes a new priority at once, keeps its wait, and its next attempt starts by it.", "tr:O5 spec:P7 spec:P9", changeAwaiting},
	{"args only before the first claim", "Args are changed only while the job was never claimed in this generation.", "tr:O5 rules:E4 spec:J4", changeArgs},
	{"tags of any job", "Tags are changed also of final jobs; a list replaces the one before.", "tr:O5 spec:P4 spec:G1 spec:G3", changeTags},
	{"single tags", "Single tags are added to and removed from jobs in any state; changes at the same time do not undo each other.", "tr:O5 spec:P4", changeSingleTags},
	{"repeat a Finish after new tags", "A repeated Finish has the same answer after the tags of the final job have changed, and the history keeps its bound.",
		"tr:O5 tr:F12", repeatAfterTags},
	{"change the policy", "The non-zero fields of a policy replace the job's; a new deadline counts from the change.", "tr:O5 spec:P9 spec:J19", changePolicy},
	{"change an errored job", "A change leaves an errored job errored.", "tr:O5", changeErrored},
}

func (s *scene) change(id sojourn.ID, c sojourn.Change, want sojourn.State) sojourn.Job {
	s.Helper()
	return s.edited(id, sojourn.Edit{Action: sojourn.EditChange, By: "ops", Reason: "asked", Change: c}, want)
}

func changeValues(s *scene) {
	p, w, g := int32(-7), int32(0), "Händler/9"
	a := []byte("new\x00args")
	for what, id := range inOrder(map[string]sojourn.ID{"ready": s.enqueue(), "scheduled": s.enqueue(sojourn.Delay(time.Hour))}) {
		state := s.get(id).State
		runAt := s.get(id).RunAt
		s.advance(time.Second)
		j := s.change(id, sojourn.Change{Priority: &p, Weight: &w, Group: &g, Args: &a, Tags: &[]string{"t"}}, state)
		same(s, what+": priority", j.Priority, p)
		same(s, what+": weight", j.Weight, w)
		same(s, what+": group", j.Group, g)
		same(s, what+": args", string(j.Args), string(a))
		same(s, what+": tags", len(j.Tags), 1)
		s.at(what+": run_at", j.RunAt, runAt)
		s.at(what+": updated_at", j.UpdatedAt, s.now())
		e := s.happened(id, "edited")[0]
		same(s, what+": by", e.By, "ops")
		same(s, what+": state in the history", e.State, state)
	}
	c := s.claim(room(0)) // its weight is 0 now
	same(s, "claimed args", string(c.Job.Args), string(a))
}

func changeRunAt(s *scene) {
	id := s.enqueue()
	when, now := s.now().Add(time.Hour), s.now().Add(-time.Hour)
	d, zero := 30*time.Minute, time.Duration(0)
	s.at("run_at", s.change(id, sojourn.Change{RunAt: &when}, sojourn.Scheduled).RunAt, when)
	s.advance(time.Minute)
	s.at("run_at", s.change(id, sojourn.Change{Delay: &d}, sojourn.Scheduled).RunAt, s.now().Add(d))
	s.change(id, sojourn.Change{RunAt: &now}, sojourn.Ready)
	s.change(id, sojourn.Change{Delay: &d}, sojourn.Scheduled)
	s.claimNone("it was put off")
	s.change(id, sojourn.Change{Delay: &zero}, sojourn.Ready)
	same(s, "job", s.claim().Job.ID, id)
}

func changeQueue(s *scene) {
	a := s.enqueue()
	s.advance(time.Second)
	b := s.enqueue(sojourn.Queue("other"))
	q := "other"
	same(s, "queue", s.change(a, sojourn.Change{Queue: &q}, sojourn.Ready).Queue, q)
	s.claimNone("it has moved")
	s.order(s.drain(from("other")), []sojourn.ID{a, b})
	same(s, "jobs left behind", len(s.queue(line).Counts), 0)
	c := s.enqueue()
	fresh := "brand-new"
	s.change(c, sojourn.Change{Queue: &fresh}, sojourn.Ready)
	same(s, "ready in the new queue", s.queue(fresh).Counts[sojourn.Ready], 1)
}

func changeRefused(s *scene) {
	p, q := int32(7), "other"
	ids := map[string]sojourn.ID{"running": s.running().Job.ID, "awaiting": s.awaiting().Job.ID, "resumed": s.resumed("k").Job.ID}
	for what, id := range inOrder(ids) {
		before := s.picture(id)
		changes := []sojourn.Change{{Priority: &p, Weight: &p}, {Weight: &p}, {Queue: &q}, {Group: &q}, {Args: &[]byte{}}, {Policy: &sojourn.Policy{MaxAttempts: 9}}}
		if what != "awaiting" {
			changes = append(changes, sojourn.Change{Priority: &p})
		}
		for _, c := range changes {
			item := s.edit(id, sojourn.Edit{Action: sojourn.EditChange, Change: c})
			s.is(item.Err, sojourn.ErrConflict, "a change of a job that is "+what)
			same(s, "changed", item.Changed, false)
		}
		s.unchanged(id, before, "a refused change")
	}
}

func changeAwaiting(s *scene) {
	key := sojourn.Key("k")
	c := s.awaiting(key, steady(time.Minute))
	before := s.get(c.Job.ID)
	p := int32(7)
	s.advance(time.Second)
	j := s.change(c.Job.ID, sojourn.Change{Priority: &p, AddTags: &[]string{"urgent"}}, sojourn.Awaiting)
	same(s, "priority", j.Priority, p)
	same(s, "tags", strings.Join(j.Tags, " "), "urgent")
	s.at("wake_at", j.WakeAt, before.WakeAt)
	s.at("the end of the wait", j.Awaits.Until, before.Awaits.Until)
	e := s.history(c.Job.ID)
	last := e[len(e)-1]
	same(s, "the entry in the history", last.Outcome+" by "+last.By+" "+last.State.String(), "edited by ops awaiting")
	s.respond("k")
	d := s.claim()
	same(s, "the resumed job", d.Job.ID, c.Job.ID)
	same(s, "its priority", d.Job.Priority, p)
	s.finish(failure(d), sojourn.Scheduled)
	other := s.enqueue(sojourn.Priority(50))
	s.advance(time.Minute)
	s.order(s.drain(), []sojourn.ID{c.Job.ID, other}) // 7 before 50; it had 100
}

func changeArgs(s *scene) {
	c := s.running()
	s.finish(released(c), sojourn.Ready)
	a := []byte("new")
	item := s.edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditChange, Change: sojourn.Change{Args: &a}})
	s.is(item.Err, sojourn.ErrConflict, "new args after a claim")
	same(s, "args", string(s.get(c.Job.ID).Args), `{"order":42}`)
	p := int32(7)
	item = s.edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditChange, Change: sojourn.Change{Args: &a, Priority: &p}})
	s.is(item.Err, sojourn.ErrConflict, "new args and priority after a claim")
	same(s, "priority", s.get(c.Job.ID).Priority, sojourn.DefaultPriority) // all or nothing
	s.cancel(c.Job.ID)
	s.edited(c.Job.ID, redriveEdit, sojourn.Ready)
	s.change(c.Job.ID, sojourn.Change{Args: &a}, sojourn.Ready)
	same(s, "args", string(s.claim().Job.Args), "new")
}

func changeTags(s *scene) {
	c := s.final(sojourn.Completed, sojourn.Tags("a", "b"))
	j := s.change(c.Job.ID, sojourn.Change{Tags: &[]string{"b", "c", "c"}}, sojourn.Completed)
	slices.Sort(j.Tags)
	if !slices.Equal(j.Tags, []string{"b", "c"}) {
		s.Fatalf("the tags are %v, want b and c", j.Tags)
	}
	for tag, want := range inOrder(map[string]int{"a": 0, "b": 1, "c": 1}) {
		jobs, err := s.store.Find(s.ctx, sojourn.Filter{Tag: tag})
		s.must(err, "Find")
		same(s, "jobs with the tag "+tag, len(jobs), want)
	}
	s.change(c.Job.ID, sojourn.Change{Tags: &[]string{}}, sojourn.Completed)
	same(s, "tags", len(s.get(c.Job.ID).Tags), 0)
	p := int32(7)
	item := s.edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditChange, Change: sojourn.Change{Tags: &[]string{"x"}, Priority: &p}})
	s.is(item.Err, sojourn.ErrConflict, "tags and more of a final job")
	same(s, "tags", len(s.get(c.Job.ID).Tags), 0)
}

func changeSingleTags(s *scene) {
	final, running := s.final(sojourn.Failed, sojourn.Tags("a", "b")), s.running(sojourn.Tags("a", "b"))
	awaiting, plain := s.awaiting(sojourn.Key("k"), sojourn.Tags("a", "b")), s.enqueue(sojourn.Tags("a", "b"))
	for _, id := range []sojourn.ID{plain, running.Job.ID, awaiting.Job.ID, final.Job.ID} {
		before := s.get(id)
		e := sojourn.Edit{Action: sojourn.EditChange, By: "ann", Change: sojourn.Change{RemoveTags: &[]string{"a", "x"}, AddTags: &[]string{"c", "b"}}}
		item := s.edit(id, e)
		s.must(item.Err, "edit of a job that is %s", before.State)
		same(s, "changed", item.Changed, true)
		same(s, "changed again", s.edit(id, e).Changed, false)
		after := s.get(id)
		same(s, "tags", strings.Join(after.Tags, " "), "b c")
		before.Tags, before.UpdatedAt = after.Tags, after.UpdatedAt
		same(s, "the rest of the job", text(after), text(before))
		entries, err := s.store.History(s.ctx, id, 0, 0)
		s.must(err, "History")
		if len(entries) == 0 {
			s.Fatalf("a job that is %s has no history", before.State)
		}
		last := entries[len(entries)-1]
		same(s, "the last entry of a job that is "+before.State.String(), last.By+" "+last.Outcome, "ann edited")
		same(s, "state in the history", last.State, before.State)
		same(s, "worker and epoch of the entry", last.Worker+strconv.FormatInt(last.Epoch, 10), "0")
		many := make([]string, sojourn.MaxTags-1)
		for i := range many {
			many[i] = "t" + strconv.Itoa(i)
		}
		s.refused(s.edit(id, sojourn.Edit{Action: sojourn.EditChange, Change: sojourn.Change{AddTags: &many}}).Err, sojourn.CodeInvalid, "too many tags")
	}
	s.finish(completed(running), sojourn.Completed) // the lease is still valid
	s.happened(running.Job.ID, "edited", "completed")
	s.happened(final.Job.ID, "abort", "edited")
	s.edited(final.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	s.happened(final.Job.ID, "abort", "edited", "redriven")
	var errs [10]error
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			add := []string{"p" + strconv.Itoa(i)}
			_, errs[i] = s.store.Edit(s.ctx, sojourn.Filter{IDs: []sojourn.ID{plain}}, sojourn.Edit{Action: sojourn.EditChange, Change: sojourn.Change{AddTags: &add}})
		})
	}
	wg.Wait()
	s.must(errors.Join(errs[:]...), "Edit")
	same(s, "tags after changes at the same time", len(s.get(plain).Tags), 12)
}

func repeatAfterTags(s *scene) {
	c := s.final(sojourn.Completed)
	s.change(c.Job.ID, sojourn.Change{AddTags: &[]string{"x"}}, sojourn.Completed)
	s.reports(completed(c), driver.FinishRepeated)
	for range sojourn.MaxHistory + 2 { // the bound of a history holds
		s.change(c.Job.ID, sojourn.Change{AddTags: &[]string{"y"}}, sojourn.Completed)
		s.change(c.Job.ID, sojourn.Change{RemoveTags: &[]string{"y"}}, sojourn.Completed)
	}
}

func changePolicy(s *scene) {
	id := s.enqueue(steady(time.Minute), sojourn.MaxAttempts(9))
	j := s.change(id, sojourn.Change{Policy: &sojourn.Policy{MaxAttempts: 1, Timeout: time.Hour}}, sojourn.Ready)
	same(s, "max_attempts", j.Policy.MaxAttempts, 1)
	same(s, "timeout", j.Policy.Timeout, time.Hour)
	same(s, "backoff", j.Policy.Backoff.First, time.Minute)
	s.advance(10 * time.Minute)
	s.change(id, sojourn.Change{Policy: &sojourn.Policy{Deadline: time.Hour}}, sojourn.Ready)
	c := s.claim()
	same(s, "timeout left", c.Timeout, time.Hour)
	same(s, "deadline left, counted from the change", c.Deadline, time.Hour)
	s.finish(failure(c), sojourn.Failed)
}

func changeErrored(s *scene) {
	c := s.errored()
	p := int32(7)
	same(s, "priority", s.change(c.Job.ID, sojourn.Change{Priority: &p}, sojourn.Errored).Priority, 7)
	same(s, "purpose", s.claim(deciding).Purpose, sojourn.PurposeDecide)
}

// Package events has the cases about followers and their events.
package events

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/store/event"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return []kit.Trial{
		{Name: "events of a life", Law: "A follower gets each transition of a job from its creation on, in order.", Covers: "spec:J17 spec:X14", Run: life},
		{Name: "events are acknowledged", Law: "Events come again until they are acknowledged; an acknowledgement never goes back.", Covers: "spec:X14", Run: acknowledged},
		{Name: "events are read without acknowledgement", Law: "After reads behind a position that the follower has got, and acknowledges nothing.", Covers: "spec:X14", Run: after},
		{Name: "filters of followers", Law: "A follower gets the events of its queue, kind, key, tag and states.", Covers: "spec:X14", Run: filters},
		{Name: "two followers", Law: "Each follower has its own position; events stay until all have read them.", Covers: "spec:X14", Run: two},
		{Name: "gap", Law: "Events are kept for 24 hours; a follower that was too slow gets a gap, once it has acknowledged it never again.", Covers: "spec:X14", Run: gap},
		{Name: "followers of tenants", Law: "A follower belongs to its maker, and gets events of jobs that this one may read.", Covers: "spec:H7", Run: tenants},
		{Name: "bad followers", Law: "Unknown names, bad filters and positions are refused, and nothing is stored.", Covers: "spec:X14", Run: bad},
		{Name: "unused followers", Law: "A follower that is not used for 7 days is deleted.", Covers: "spec:X14", Run: unused},
		{Name: "a read of events waits", Law: "A read waits for the next event.", Covers: "spec:X14", Run: waits},
	}
}

// of returns the calls about events.
func of(s *kit.Scene) event.Events {
	s.Helper()
	if _, ok := s.Store.(event.Store); !ok {
		s.Skip("this store has no events")
	}
	return event.Of(sojourn.NewClient(s.Store))
}

func follow(s *kit.Scene, name string, f event.Filter) {
	s.Helper()
	_, err := of(s).Follow(s.Ctx, name, f)
	s.Must(err, "Follow")
}

// read reads the events of a follower, of which at least n are to come, and acknowledges those up
// to ack. On PostgreSQL any open transaction of the server delays them.
func read(s *kit.Scene, name string, ack event.Position, n int) event.Page {
	s.Helper()
	return readUpTo(s, name, ack, n, sojourn.MaxFind)
}

func readUpTo(s *kit.Scene, name string, ack event.Position, n, limit int) event.Page {
	s.Helper()
	for try := 0; ; try++ {
		page, err := of(s).Read(s.Ctx, event.Read{Follower: name, Ack: ack, Limit: limit})
		s.Must(err, "Read")
		if len(page.Events) >= n || try == maxTries {
			return page
		}
		time.Sleep(tryEvery)
	}
}

// maxTries bounds the reads that are to find an event.
const (
	maxTries = 2000
	tryEvery = 10 * time.Millisecond
)

// text lists events: the job, the state before and after it.
func text(all []event.Event) string {
	var out []string
	for _, e := range all {
		if e.Type == event.Gap {
			out = append(out, "gap")
		} else {
			out = append(out, fmt.Sprintf("%v>%v", e.From, e.State))
		}
	}
	return strings.Join(out, " ")
}

func life(s *kit.Scene) {
	s.Enqueue() // before the follower
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	follow(s, "f", event.Filter{})
	kit.Same(s, "nothing yet", text(read(s, "f", "", 0).Events), "")
	id := s.Enqueue(sojourn.Key("k"), sojourn.Tags("red"), sojourn.MaxAttempts(2), kit.Steady(time.Minute))
	s.Finish(kit.Failure(s.Claim()), sojourn.Scheduled)
	s.Advance(time.Minute)
	s.Finish(kit.Await(s.Claim(), time.Hour), sojourn.Awaiting)
	s.Respond("k")
	s.Finish(kit.Abort(s.Claim()), sojourn.Failed)
	s.Edited(id, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	all := read(s, "f", "", 12).Events
	got := text(all)
	want := "none>ready ready>running running>scheduled scheduled>ready ready>running running>awaiting awaiting>ready ready>running running>failed none>ready ready>running running>completed"
	if got != want && got != strings.Replace(want, "scheduled>ready ready>running", "scheduled>running", 1) {
		s.Errorf("events are %s, want %s", got, want)
	}
	first, last := all[0], all[len(all)-1]
	kit.Same(s, "first event", fmt.Sprintln(first.Job == id, first.Key, first.Tags, first.Generation, first.Attempt, first.Type), "true k [red] 1 0 transition\n")
	kit.Same(s, "last event", fmt.Sprintln(last.Job == id, last.Key, last.Tags, last.Generation, last.Attempt, last.At.Equal(s.Now())), "true k [red] 2 1 true\n")
}

func acknowledged(s *kit.Scene) {
	follow(s, "f", event.Filter{})
	follow(s, "f", event.Filter{}) // again
	s.Enqueue()
	s.Enqueue()
	first := read(s, "f", "", 2)
	kit.Same(s, "events", len(first.Events), 2)
	kit.Same(s, "events again", len(read(s, "f", "", 2).Events), 2)
	kit.Same(s, "after the first", len(read(s, "f", first.Events[0].Position, 1).Events), 1)
	kit.Same(s, "an acknowledgement of nothing", len(read(s, "f", "", 1).Events), 1)
	second := read(s, "f", first.Next, 0)
	kit.Same(s, "after both", len(second.Events), 0)
	kit.Same(s, "an old acknowledgement", len(read(s, "f", first.Events[0].Position, 0).Events), 0)
	s.Enqueue()
	kit.Same(s, "the third", len(readUpTo(s, "f", second.Next, 1, 1).Events), 1)
	s.Sweep()
	kit.Same(s, "after a sweep", len(read(s, "f", "", 1).Events), 1)
	all, err := of(s).Followers(s.Ctx)
	s.Must(err, "Followers")
	kit.Same(s, "followers", fmt.Sprintln(len(all), all[0].Name, all[0].Lag), "1 f 1\n")
	s.Must(of(s).Unfollow(s.Ctx, "f"), "Unfollow")
	s.Enqueue()
	follow(s, "f", event.Filter{Queue: "other"})
	kit.Same(s, "of a new follower", len(read(s, "f", "", 0).Events), 0)
}

func after(s *kit.Scene) {
	follow(s, "f", event.Filter{})
	s.Enqueue()
	s.Enqueue()
	s.Enqueue()
	all := read(s, "f", "", 3)
	behind := func(p event.Position) event.Page { // all are readable already
		s.Helper()
		page, err := of(s).Read(s.Ctx, event.Read{Follower: "f", After: p})
		s.Must(err, "Read")
		return page
	}
	kit.Same(s, "events behind the first", behind(all.Events[0].Position).Events[0].Position, all.Events[1].Position)
	kit.Same(s, "events behind the last", len(behind(all.Next).Events), 0)
	kit.Same(s, "events behind nothing", len(behind("").Events), 3)
	read(s, "f", all.Events[1].Position, 1)
	kit.Same(s, "events behind a position before the acknowledged one", behind(all.Events[0].Position).Events[0].Position, all.Events[2].Position)
	for _, p := range []event.Position{"x", event.PositionOf(1<<40, 7)} {
		_, err := of(s).Read(s.Ctx, event.Read{Follower: "f", After: p})
		s.Refused(err, sojourn.CodeInvalid, "after "+string(p))
	}
}

func filters(s *kit.Scene) {
	for name, f := range map[string]event.Filter{"queue": {Queue: "a"}, "kind": {Kind: "mail"}, "key": {Key: "k"}, "tag": {Tag: "red"}, "states": {States: []sojourn.State{sojourn.Running, sojourn.Cancelled}},
		"all": {Queue: "a", Kind: "mail", Key: "k", Tag: "red", States: []sojourn.State{sojourn.Ready}}} {
		follow(s, name, f)
	}
	s.Enqueue(sojourn.Queue("a"), sojourn.Key("k"), kit.OfKind("mail"), sojourn.Tags("red", "blue"))
	s.Enqueue(sojourn.Queue("a"))
	s.Enqueue(sojourn.Queue("b"), kit.OfKind("mail"))
	s.Cancel(s.Enqueue(sojourn.Key("k")))
	for name, want := range map[string]int{"queue": 2, "kind": 2, "key": 3, "tag": 1, "states": 1, "all": 1} {
		kit.Same(s, "events by "+name, len(read(s, name, "", want).Events), want)
	}
}

func two(s *kit.Scene) {
	follow(s, "a", event.Filter{})
	s.Enqueue()
	follow(s, "b", event.Filter{})
	s.Enqueue()
	page := read(s, "a", "", 2)
	kit.Same(s, "events of a", len(page.Events), 2)
	read(s, "a", page.Next, 0)
	s.Sweep()
	b := read(s, "b", "", 1).Events
	if b[len(b)-1].Job != page.Events[1].Job {
		s.Errorf("b has not got the event of the job that was stored after it: %v", b)
	}
}

func gap(s *kit.Scene) {
	follow(s, "slow", event.Filter{})
	follow(s, "quick", event.Filter{})
	s.Enqueue()
	read(s, "quick", read(s, "quick", "", 1).Next, 0)
	s.Advance(event.Keep)
	s.Sweep()
	kit.Same(s, "after 24 hours", text(read(s, "slow", "", 1).Events), "none>ready")
	s.Advance(time.Second)
	s.Enqueue()
	s.Sweep()
	page := read(s, "slow", "", 2)
	kit.Same(s, "later", text(page.Events), "gap none>ready")
	kit.Same(s, "again", text(read(s, "slow", "", 2).Events), "gap none>ready")
	kit.Same(s, "after the gap", text(read(s, "slow", page.Events[0].Position, 1).Events), "none>ready")
	kit.Same(s, "of the quick one", text(read(s, "quick", "", 1).Events), "none>ready")
}

func tenants(s *kit.Scene) {
	ours := s.Tenant("ours", access.Grant{Verbs: []access.Verb{access.VerbRead}, Queue: "ours"})
	theirs := s.Tenant("theirs", access.Grant{Verbs: []access.Verb{access.VerbRead}, Queue: "theirs"})
	follow(ours, "f", event.Filter{})
	follow(theirs, "f", event.Filter{Queue: "theirs"}) // a name of its own
	follow(s, "f", event.Filter{})
	s.Enqueue(sojourn.Queue("ours"))
	s.Enqueue(sojourn.Queue("theirs"))
	s.Enqueue(sojourn.Queue("theirs"))
	for _, c := range []struct {
		s    *kit.Scene
		want int
	}{{ours, 1}, {theirs, 2}, {s, 3}} {
		kit.Same(s, "events", len(read(c.s, "f", "", c.want).Events), c.want)
	}
	moved, queue := s.Enqueue(sojourn.Queue("theirs")), "ours" // its later events are of its new queue
	s.Edited(moved, sojourn.Edit{Action: sojourn.EditChange, Queue: &queue}, sojourn.Ready)
	s.Edited(moved, sojourn.Edit{Action: sojourn.EditCancel}, sojourn.Cancelled)
	kit.Same(s, "of ours after the move", text(read(ours, "f", "", 2).Events), "none>ready ready>cancelled")
	kit.Same(s, "of theirs after the move", text(read(theirs, "f", "", 3).Events), "none>ready none>ready none>ready")
	found, err := of(ours).Followers(ours.Ctx)
	s.Must(err, "Followers")
	kit.Same(s, "followers of ours", len(found), 1)
	kit.Same(s, "the lag of ours", found[0].Lag, 2) // not how much others do
	_, err = of(ours).Follow(ours.Ctx, "g", event.Filter{Queue: "theirs"})
	s.Refused(err, access.CodeScope, "the queue of others")
	follow(theirs, "other", event.Filter{})
	s.Refused(of(ours).Unfollow(ours.Ctx, "other"), sojourn.CodeNotFound, "the follower of others")
	_, err = of(ours).Read(ours.Ctx, event.Read{Follower: "other"})
	s.Refused(err, sojourn.CodeNotFound, "a read of the follower of others")
}

func bad(s *kit.Scene) {
	ev := of(s)
	_, err := ev.Read(s.Ctx, event.Read{Follower: "nobody"})
	s.Refused(err, sojourn.CodeNotFound, "an unknown follower")
	s.Refused(ev.Unfollow(s.Ctx, "nobody"), sojourn.CodeNotFound, "an unknown follower")
	for _, f := range []event.Filter{{Queue: "a b"}, {Kind: "a b"}, {States: []sojourn.State{42}}} {
		_, err := event.StoreOf(s.Store).Follow(s.Ctx, "f", f)
		s.Refused(err, sojourn.CodeInvalid, fmt.Sprintf("filter %+v", f))
	}
	_, err = event.StoreOf(s.Store).Follow(s.Ctx, "a b", event.Filter{})
	s.Refused(err, sojourn.CodeInvalid, "a bad name")
	follow(s, "f", event.Filter{})
	_, err = ev.Follow(s.Ctx, "f", event.Filter{Kind: "mail"})
	s.Refused(err, sojourn.CodeConflict, "another filter")
	for _, p := range []event.Position{"x", "1", "1-", "1-2-3", "+1-2", "999999999999-1"} {
		_, err := ev.Read(s.Ctx, event.Read{Follower: "f", Ack: p})
		s.Refused(err, sojourn.CodeInvalid, "position "+string(p))
	}
	for _, r := range []event.Read{{Follower: "f", Limit: -1}, {Follower: "f", Limit: sojourn.MaxFind + 1}} {
		_, err := ev.Read(s.Ctx, r)
		s.Refused(err, sojourn.CodeInvalid, fmt.Sprintf("%+v", r))
	}
}

func unused(s *kit.Scene) {
	follow(s, "f", event.Filter{})
	follow(s, "used", event.Filter{})
	s.Advance(event.KeepFollower)
	read(s, "used", "", 0)
	s.Sweep()
	read(s, "f", "", 0) // it is used now
	s.Advance(event.KeepFollower + time.Second)
	read(s, "used", "", 0)
	s.Sweep()
	all, err := of(s).Followers(s.Ctx)
	s.Must(err, "Followers")
	kit.Same(s, "followers", fmt.Sprintln(len(all), all[0].Name), "1 used\n")
}

func waits(s *kit.Scene) {
	follow(s, "f", event.Filter{Queue: "a"})
	var page event.Page
	var err error
	kit.SideBySide(func() {
		page, err = of(s).Read(s.Ctx, event.Read{Follower: "f", Wait: sojourn.MaxWait})
	}, func() {
		s.Enqueue()
		s.Enqueue(sojourn.Queue("a"))
	})
	s.Must(err, "Read")
	kit.Same(s, "events", len(page.Events), 1)
}

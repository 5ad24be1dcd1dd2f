// Package archives has the cases about archives.
package archives

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/archive"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return []kit.Trial{
		{Name: "an archive holds jobs", Law: "Retention keeps a final job that an archive has not exported, and deletes it after that.", Covers: "spec:X10 inv:R1", Run: holds},
		{Name: "an archive waits at most", Law: "A job that is not exported in time is deleted and counted as missed.", Covers: "spec:X10 inv:R1", Run: waits},
		{Name: "filters of archives", Law: "An archive exports and holds the final jobs of its queue, kind and states, no others.", Covers: "spec:X10", Run: filters},
		{Name: "two archives", Law: "A job stays until each archive that it matches has exported it.", Covers: "spec:X10", Run: two},
		{Name: "an archive and a redrive", Law: "Each generation that is final when it is read is exported once; the history has those before.", Covers: "spec:X10", Run: redrive},
		{Name: "an archive and a purge", Law: "A purge by hand deletes also what is not exported, and is counted as missed.", Covers: "spec:X10", Run: purge},
		{Name: "leases of archives", Law: "One runner exports at a time; what an earlier one records is refused and leaves nothing.", Covers: "spec:X10", Run: leases},
		{Name: "pages of an archive", Law: "A pass reads all jobs that are not exported, page by page, and the next one those that ended since.", Covers: "spec:X10", Run: pages},
		{Name: "a job of an archive", Law: "A job is exported in full, with its responses and its history.", Covers: "spec:X10", Run: whole},
		{Name: "archives of tenants", Law: "An archive belongs to its maker, who may read and operate all jobs of the filter.", Covers: "spec:H7", Run: tenants},
		{Name: "bad archives", Law: "Unknown names, bad definitions and records are refused, and nothing is stored.", Covers: "spec:X10", Run: bad},
		{Name: "an archive into a table", Law: "A table gets a job in the transaction that records it.", Covers: "spec:X10", Run: table},
	}
}

const (
	dir   = "file:/archive"
	lease = time.Minute
	age   = time.Hour // of the retention
)

// of returns the calls about archives.
func of(s *kit.Scene) archive.Archives {
	s.Helper()
	if _, ok := s.Store.(archive.Store); !ok {
		s.Skip("this store has no archives")
	}
	return archive.Of(sojourn.NewClient(s.Store))
}

func add(s *kit.Scene, name string, f archive.Filter) {
	s.Helper()
	_, err := of(s).Add(s.Ctx, archive.Definition{Name: name, Filter: f, To: dir})
	s.Must(err, "Add")
}

func take(s *kit.Scene, name string) archive.Lease {
	s.Helper()
	l, err := of(s).Lease(s.Ctx, name, "runner", lease)
	s.Must(err, "Lease")
	return l
}

// read reads a whole pass.
func read(s *kit.Scene, name string, full bool, limit int) (jobs []archive.Job, through time.Time) {
	s.Helper()
	for r := (archive.Read{Archive: name, Full: full, Limit: limit}); ; {
		page, err := of(s).Read(s.Ctx, r)
		s.Must(err, "Read")
		if through.IsZero() {
			through = page.At
		}
		if jobs = append(jobs, page.Jobs...); page.Next == "" {
			return jobs, through
		}
		r.After = page.Next
	}
}

// export exports what there is under a lease, and returns the ids with their generations.
func export(s *kit.Scene, name string) string {
	s.Helper()
	l := take(s, name)
	jobs, through := read(s, name, false, 0)
	r := archive.Record{Archive: name, Epoch: l.Epoch, Through: through, Lease: lease}
	var out []string
	for _, j := range jobs {
		r.Jobs = append(r.Jobs, archive.Exported{Job: j.ID, Generation: j.Generation})
		out = append(out, fmt.Sprintf("%d.%d", j.ID, j.Generation))
	}
	s.Must(of(s).Record(s.Ctx, r), "Record")
	return strings.Join(out, " ")
}

func status(s *kit.Scene, name string) archive.Status {
	s.Helper()
	all, err := of(s).List(s.Ctx)
	s.Must(err, "List")
	for _, a := range all {
		if a.Name == name {
			return a
		}
	}
	s.Fatalf("archive %s is not listed", name)
	return archive.Status{}
}

// counts are the numbers of an archive: exported, missed, lag.
func counts(s *kit.Scene, name string) string {
	s.Helper()
	a := status(s, name)
	return fmt.Sprint(a.Exported, " ", a.Missed, " ", a.Lag)
}

func retain(s *kit.Scene) {
	s.Helper()
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Retention: sojourn.Retention{Age: age, FailedAge: age}})
}

func text(ids ...sojourn.ID) string {
	var out []string
	for _, id := range ids {
		out = append(out, fmt.Sprintf("%d.1", id))
	}
	return strings.Join(out, " ")
}

func holds(s *kit.Scene) {
	retain(s)
	before := s.Final(sojourn.Completed).Job.ID
	add(s, "a", archive.Filter{})
	add(s, "a", archive.Filter{}) // again
	after, live := s.Final(sojourn.Failed).Job.ID, s.Enqueue(kit.OfKind("other"))
	s.Swept(2*age, driver.Swept{})
	kit.Same(s, "exported, missed, lag", counts(s, "a"), "0 0 2")
	why := func(want bool) {
		w, err := s.Store.Why(s.Ctx, before)
		s.Must(err, "Why")
		if strings.Contains(w.Waits, "an archive has not exported it") != want {
			s.Errorf("why is %q", w.Waits)
		}
	}
	why(true)
	kit.Same(s, "behind", status(s, "a").Behind, (2 * age).Seconds())
	kit.Same(s, "jobs", export(s, "a"), text(before, after))
	kit.Same(s, "again", export(s, "a"), "")
	why(false)
	kit.Same(s, "exported, missed, lag after it", counts(s, "a"), "2 0 0")
	s.Swept(0, driver.Swept{Pruned: 2})
	s.Gone(before)
	s.Gone(after)
	s.State(live, sojourn.Ready)
	late := s.Final(sojourn.Completed).Job.ID
	s.Must(of(s).Remove(s.Ctx, "a"), "Remove")
	s.Swept(2*age, driver.Swept{Pruned: 1})
	s.Gone(late)
	add(s, "a", archive.Filter{})
	kit.Same(s, "of an archive that was removed", counts(s, "a"), "0 0 0")
}

func waits(s *kit.Scene) {
	retain(s)
	old := s.Final(sojourn.Completed).Job.ID
	s.Advance(archive.DefaultWait)
	add(s, "a", archive.Filter{})
	done := s.Final(sojourn.Completed).Job.ID
	s.Swept(archive.DefaultWait-time.Second, driver.Swept{}) // also the one that ended long before the archive was made
	s.Swept(2*time.Second, driver.Swept{Pruned: 2})
	s.Gone(old)
	s.Gone(done)
	kit.Same(s, "exported, missed, lag", counts(s, "a"), "0 2 0")
}

func filters(s *kit.Scene) {
	retain(s)
	s.SetQueue("q", sojourn.QueueSettings{Retention: sojourn.Retention{Age: age, FailedAge: age}})
	add(s, "queue", archive.Filter{Queue: "q"})
	add(s, "kind", archive.Filter{Kind: "mail"})
	add(s, "states", archive.Filter{Queue: "q", States: []sojourn.State{sojourn.Failed, sojourn.Cancelled}})
	mail := s.Final(sojourn.Completed, kit.OfKind("mail")).Job.ID
	failed := s.Final(sojourn.Failed, sojourn.Queue("q")).Job.ID
	done := s.Final(sojourn.Completed, sojourn.Queue("q")).Job.ID
	s.Final(sojourn.Completed)
	s.Swept(2*age, driver.Swept{Pruned: 1})
	for name, want := range map[string]string{"queue": text(done, failed), "kind": text(mail), "states": text(failed)} {
		kit.Same(s, "lag of "+name, status(s, name).Lag, int64(strings.Count(want, ".")))
		kit.Same(s, "jobs of "+name, export(s, name), want)
	}
	s.Swept(0, driver.Swept{Pruned: 3})
}

func two(s *kit.Scene) {
	retain(s)
	add(s, "a", archive.Filter{})
	add(s, "b", archive.Filter{})
	done := s.Final(sojourn.Completed).Job.ID
	kit.Same(s, "jobs of a", export(s, "a"), text(done))
	s.Swept(2*age, driver.Swept{})
	kit.Same(s, "jobs of b", export(s, "b"), text(done))
	s.Swept(0, driver.Swept{Pruned: 1})
	s.Gone(done)
	kit.Same(s, "exported, missed, lag of a", counts(s, "a"), "1 0 0")
}

func redrive(s *kit.Scene) {
	retain(s)
	add(s, "a", archive.Filter{})
	again := func(id sojourn.ID) {
		s.Edited(id, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
		s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	}
	id := s.Final(sojourn.Failed).Job.ID
	kit.Same(s, "the first generation", export(s, "a"), text(id))
	again(id)
	s.Swept(2*age, driver.Swept{})
	kit.Same(s, "the second generation", export(s, "a"), fmt.Sprintf("%d.2", id))
	s.Swept(0, driver.Swept{Pruned: 1})
	other := s.Final(sojourn.Failed).Job.ID
	again(other)
	jobs, _ := read(s, "a", true, 0)
	kit.Same(s, "jobs redriven before they were exported", len(jobs), 1)
	var generations []int32
	for _, h := range jobs[0].History {
		generations = append(generations, h.Generation)
	}
	kit.Same(s, "generations of the history", fmt.Sprint(generations[0], generations[len(generations)-1]), "1 2")
	l := take(s, "a")
	s.Edited(s.Final(sojourn.Failed).Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	s.Must(of(s).Record(s.Ctx, archive.Record{Archive: "a", Epoch: l.Epoch, Lease: lease, Jobs: []archive.Exported{{Job: other, Generation: 2}, {Job: other, Generation: 1}}}), "Record")
	kit.Same(s, "exported, missed, lag", counts(s, "a"), "4 0 0")
}

func purge(s *kit.Scene) {
	add(s, "a", archive.Filter{})
	add(s, "b", archive.Filter{})
	id := s.Final(sojourn.Completed).Job.ID
	kit.Same(s, "jobs of a", export(s, "a"), text(id))
	s.Advance(sojourn.IDLife + time.Second)
	_, err := s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{id}}, sojourn.Edit{Action: sojourn.EditPurge})
	s.Must(err, "Edit")
	s.Gone(id)
	kit.Same(s, "exported, missed, lag of a", counts(s, "a"), "1 0 0")
	kit.Same(s, "exported, missed, lag of b", counts(s, "b"), "0 1 0")
	l := take(s, "b") // it had read the job before
	s.Must(of(s).Record(s.Ctx, archive.Record{Archive: "b", Epoch: l.Epoch, Jobs: []archive.Exported{{Job: id, Generation: 1}}}), "Record")
}

func leases(s *kit.Scene) {
	retain(s)
	add(s, "a", archive.Filter{})
	id := s.Final(sojourn.Completed).Job.ID
	first := take(s, "a")
	_, err := of(s).Lease(s.Ctx, "a", "other", lease)
	s.Refused(err, sojourn.CodeConflict, "a second runner")
	kit.Same(s, "runner", status(s, "a").Runner, "runner")
	second := take(s, "a") // the same name: the program before has died
	one := []archive.Exported{{Job: id, Generation: 1}}
	err = of(s).Record(s.Ctx, archive.Record{Archive: "a", Epoch: first.Epoch, Jobs: one, File: archive.File{Sequence: 7, Bytes: 7}, Lease: lease})
	s.Refused(err, sojourn.CodeLeaseLost, "a record under the first lease")
	kit.Same(s, "exported, missed, lag", counts(s, "a"), "0 0 1")
	kit.Same(s, "file", status(s, "a").File, archive.File{})
	s.Advance(lease + time.Second)
	s.Must(of(s).Record(s.Ctx, archive.Record{Archive: "a", Epoch: second.Epoch, Lease: lease}), "Record")
	_, err = of(s).Lease(s.Ctx, "a", "other", lease)
	s.Refused(err, sojourn.CodeConflict, "after the lease was extended")
	s.Must(of(s).Record(s.Ctx, archive.Record{Archive: "a", Epoch: second.Epoch, Jobs: one, File: archive.File{Sequence: 2, Bytes: 5}}), "Record")
	kit.Same(s, "file", status(s, "a").File, archive.File{Sequence: 2, Bytes: 5})
	third, err := of(s).Lease(s.Ctx, "a", "other", lease)
	s.Must(err, "Lease")
	kit.Same(s, "file of the next runner", third.File, archive.File{Sequence: 2, Bytes: 5})
	s.Refused(of(s).Record(s.Ctx, archive.Record{Archive: "a", Epoch: second.Epoch}), sojourn.CodeLeaseLost, "after another lease")
}

func pages(s *kit.Scene) {
	add(s, "a", archive.Filter{})
	var want []sojourn.ID
	for i := range 7 {
		want = append(want, s.Final(sojourn.Completed, sojourn.Queue("default")).Job.ID)
		s.Advance(time.Duration(i) * time.Second)
	}
	other := s.Final(sojourn.Cancelled, sojourn.Queue("other")).Job.ID
	jobs, _ := read(s, "a", false, 2)
	var ids []sojourn.ID
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	kit.Same(s, "jobs in pages of 2", text(ids...), text(append(want, other)...))
	export(s, "a")
	s.Advance(time.Hour)
	last := s.Final(sojourn.Completed).Job.ID
	kit.Same(s, "jobs since", export(s, "a"), text(last))
	again, _ := read(s, "a", true, 2)
	kit.Same(s, "jobs of a full pass", len(again), 0)
}

func whole(s *kit.Scene) {
	add(s, "a", archive.Filter{})
	id := s.Enqueue(sojourn.Key("k"), sojourn.Tags("red"), sojourn.MaxAttempts(2), kit.Steady(time.Minute))
	s.Finish(kit.Failure(s.Claim()), sojourn.Scheduled)
	s.Advance(time.Minute)
	s.Finish(kit.Await(s.Claim(), time.Hour), sojourn.Awaiting)
	s.Respond("k")
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	jobs, _ := read(s, "a", false, 0)
	kit.Same(s, "jobs", len(jobs), 1)
	found, err := s.Store.Find(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{id}, Full: true})
	s.Must(err, "Find")
	kit.Same(s, "job", kit.Text(jobs[0].Job), kit.Text(&found[0]))
	inbox, err := s.Store.Inbox(s.Ctx, sojourn.InboxFilter{Job: id})
	s.Must(err, "Inbox")
	kit.Same(s, "inbox", kit.Text(jobs[0].Inbox), kit.Text(inbox))
	history, err := s.Store.History(s.Ctx, id, 0, 0)
	s.Must(err, "History")
	kit.Same(s, "history", kit.Text(jobs[0].History), kit.Text(history))
}

func tenants(s *kit.Scene) {
	retain(s)
	s.SetQueue("ours", sojourn.QueueSettings{Retention: sojourn.Retention{Age: age}})
	s.SetQueue("theirs", sojourn.QueueSettings{Retention: sojourn.Retention{Age: age}})
	grant := func(queue string, verbs ...access.Verb) access.Grant { return access.Grant{Verbs: verbs, Queue: queue} }
	ours := s.Tenant("ours", grant("ours", access.VerbReadArgs, access.VerbOperate))
	theirs := s.Tenant("theirs", grant("theirs", access.VerbReadArgs, access.VerbOperate))
	reader := s.Tenant("reader", grant("ours", access.VerbReadArgs))
	operator := s.Tenant("operator", grant("ours", access.VerbRead, access.VerbOperate))
	for name, c := range map[string]*kit.Scene{"without operate": reader, "without read:args": operator, "of another queue": theirs} {
		_, err := of(c).Add(c.Ctx, archive.Definition{Name: "a", Filter: archive.Filter{Queue: "ours"}, To: dir})
		s.Refused(err, access.CodeScope, "a token "+name)
	}
	for _, f := range []archive.Filter{{}, {Kind: kit.Kind}} {
		_, err := of(ours).Add(ours.Ctx, archive.Definition{Name: "a", Filter: f, To: dir})
		s.Refused(err, access.CodeScope, "all queues")
	}
	add(ours, "a", archive.Filter{Queue: "ours"})
	add(theirs, "a", archive.Filter{Queue: "theirs"}) // a name of its own
	mine := s.Final(sojourn.Completed, sojourn.Queue("ours")).Job.ID
	s.Final(sojourn.Completed, sojourn.Queue("theirs"))
	s.Final(sojourn.Completed)
	s.Swept(2*age, driver.Swept{Pruned: 1})
	kit.Same(s, "of ours", export(ours, "a"), text(mine))
	s.Swept(0, driver.Swept{Pruned: 1})
	found, err := of(ours).List(ours.Ctx)
	s.Must(err, "List")
	kit.Same(s, "archives of ours", len(found), 1)
	add(theirs, "b", archive.Filter{Queue: "theirs"})
	s.Refused(of(ours).Remove(ours.Ctx, "b"), sojourn.CodeNotFound, "the archive of others")
	s.Refused(of(ours).Remove(ours.Ctx, "theirs/b"), sojourn.CodeNotFound, "the archive of others by its owner")
	_, err = of(ours).Read(ours.Ctx, archive.Read{Archive: "b"})
	s.Refused(err, sojourn.CodeNotFound, "a read of the archive of others")
	_, err = of(ours).Lease(ours.Ctx, "b", "runner", lease)
	s.Refused(err, sojourn.CodeNotFound, "a lease of the archive of others")
	s.Refused(of(ours).Record(ours.Ctx, archive.Record{Archive: "b", Epoch: 1}), sojourn.CodeNotFound, "a record of the archive of others")
	_, err = of(s.Tenant("ours", grant("other", access.VerbReadArgs))).Read(s.Tenant("ours", grant("other", access.VerbReadArgs)).Ctx, archive.Read{Archive: "a"})
	s.Refused(err, access.CodeScope, "a read after the grant was taken")
	all, err := of(s).List(s.Ctx)
	s.Must(err, "List")
	if len(all) == 3 { // the application, not a token of a server
		s.Must(of(s).Remove(s.Ctx, "theirs/a"), "Remove")
		s.Must(of(s).Remove(s.Ctx, "theirs/b"), "Remove")
		s.Swept(0, driver.Swept{Pruned: 1})
	}
}

func bad(s *kit.Scene) {
	a := archive.StoreOf(s.Store)
	of(s)
	for _, d := range []archive.Definition{{Name: "a"}, {Name: "a", To: "file:relative"}, {Name: "a", To: "ftp://host/"}, {Name: "a", To: "https://user@host/", Secret: "env:A"},
		{Name: "a b", To: dir}, {Name: "a/b", To: dir}, {To: dir}, {Name: "a", To: dir, Filter: archive.Filter{Queue: "a b"}}, {Name: "a", To: dir, Filter: archive.Filter{Kind: "a b"}},
		{Name: "a", To: dir, Filter: archive.Filter{States: []sojourn.State{sojourn.Ready}}}, {Name: "a", To: dir, Wait: time.Second}, {Name: "a", To: dir, Wait: 91 * 24 * time.Hour},
		{Name: "a", To: "https://host/"}, {Name: "a", To: "https://host/", Secret: "whsec_1"}, {Name: "a", To: dir, Secret: "env:A"}, {Name: strings.Repeat("a", 65), To: dir}} {
		_, err := a.AddArchive(s.Ctx, d)
		s.Refused(err, sojourn.CodeInvalid, fmt.Sprintf("%+v", d))
	}
	s.Refused(a.RemoveArchive(s.Ctx, "a"), sojourn.CodeNotFound, "an unknown archive")
	_, err := a.ReadArchive(s.Ctx, archive.Read{Archive: "a"})
	s.Refused(err, sojourn.CodeNotFound, "an unknown archive")
	_, err = a.LeaseArchive(s.Ctx, "a", "runner", lease)
	s.Refused(err, sojourn.CodeNotFound, "an unknown archive")
	s.Refused(a.RecordArchive(s.Ctx, archive.Record{Archive: "a", Epoch: 1}), sojourn.CodeNotFound, "an unknown archive")
	add(s, "a", archive.Filter{})
	_, err = of(s).Add(s.Ctx, archive.Definition{Name: "a", To: "file:/other"})
	s.Refused(err, sojourn.CodeConflict, "another target")
	for _, after := range []archive.Position{"x", "7-1-1-", "7-1-q", "+7-1-1-q"} {
		_, err := a.ReadArchive(s.Ctx, archive.Read{Archive: "a", After: after})
		s.Refused(err, sojourn.CodeInvalid, "position "+string(after))
	}
	for _, d := range []time.Duration{0, time.Millisecond, time.Hour} {
		_, err := a.LeaseArchive(s.Ctx, "a", "runner", d)
		s.Refused(err, sojourn.CodeInvalid, "a lease of "+d.String())
	}
	l := take(s, "a")
	for _, r := range []archive.Record{{Jobs: []archive.Exported{{}}}, {Jobs: make([]archive.Exported, sojourn.MaxBatch+1)}, {File: archive.File{Bytes: -1}}, {Lease: time.Hour},
		{Jobs: []archive.Exported{{Job: 1, Generation: 1, Page: []byte("\xff")}}}} {
		r.Archive, r.Epoch = "a", l.Epoch
		s.Refused(a.RecordArchive(s.Ctx, r), sojourn.CodeInvalid, fmt.Sprintf("%.100v", r))
	}
	kit.Same(s, "exported, missed, lag", counts(s, "a"), "0 0 0")
}

func table(s *kit.Scene) {
	_, err := of(s).Add(s.Ctx, archive.Definition{Name: "t", To: "table:"})
	s.Must(err, "Add")
	id := s.Final(sojourn.Completed).Job.ID
	l, err := of(s).Lease(s.Ctx, "t", "runner", lease)
	s.Must(err, "Lease")
	r := archive.Record{Archive: "t", Epoch: l.Epoch, Lease: lease, Jobs: []archive.Exported{{Job: id, Generation: 1, Page: []byte(`{"id":1}`)}}}
	s.Must(of(s).Record(s.Ctx, r), "Record")
	kit.Same(s, "exported, missed, lag", counts(s, "t"), "1 0 0")
}

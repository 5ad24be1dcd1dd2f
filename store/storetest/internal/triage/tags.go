package triage

import (
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
	"github.com/sojourn-queue/sojourn/store/tags"
)

var tagTrials = []kit.Trial{
	{Name: "tags are counted", Law: "The count of a tag is the number of live and final jobs that have it now, the most frequent tag first.", Covers: "spec:G4 spec:G3", Run: countTags},
	{Name: "jobs in the order of tagging", Law: "The jobs of a tag are listed in the order in which they got it; adding it again does not move a job.", Covers: "spec:G2 spec:G3", Run: taggedJobs},
	{Name: "tags of tenants", Law: "A token counts and lists only jobs of queues and kinds that it may read.", Covers: "spec:G2 spec:G4 spec:H7", Run: tagsOfTenants},
}

// listed are the calls about tags of a scene.
func listed(s *kit.Scene) tags.Tags {
	s.Helper()
	if _, ok := s.Store.(tags.Store); !ok {
		s.Skip("this store does not list tags")
	}
	return tags.Of(sojourn.NewClient(s.Store))
}

// counts are the counts of tags that a query finds, in their order.
func counts(s *kit.Scene, q tags.Query, want string) {
	s.Helper()
	found, err := listed(s).Counts(s.Ctx, q)
	s.Must(err, "Counts")
	got := ""
	for _, c := range found {
		got += fmt.Sprintf("%s=%d ", c.Tag, c.Jobs)
	}
	kit.Same(s, fmt.Sprintf("counts of %+v", q), got, want)
}

// tagged compares all pages of the jobs of a tag.
func tagged(s *kit.Scene, q tags.JobsQuery, want ...sojourn.ID) {
	s.Helper()
	got := ""
	for {
		page, err := listed(s).Jobs(s.Ctx, q)
		s.Must(err, "Jobs")
		for _, e := range page.Items {
			got += fmt.Sprintf("%d ", e.Job)
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	text := ""
	for _, id := range want {
		text += fmt.Sprintf("%d ", id)
	}
	kit.Same(s, fmt.Sprintf("jobs of %+v", q), got, text)
}

func countTags(s *kit.Scene) {
	counts(s, tags.Query{}, "")
	a := s.Enqueue(sojourn.Tags("x", "y"))
	b := s.Final(sojourn.Failed, kit.OfKind("other"), sojourn.Queue("q2"), sojourn.Tags("y", "z")).Job.ID
	counts(s, tags.Query{}, "y=2 x=1 z=1 ")
	counts(s, tags.Query{Min: 2}, "y=2 ")
	counts(s, tags.Query{Limit: 2}, "y=2 x=1 ")
	counts(s, tags.Query{Queue: "q2"}, "y=1 z=1 ")
	counts(s, tags.Query{Kind: kit.Kind}, "x=1 y=1 ")
	s.Change(b, sojourn.Edit{AddTags: &[]string{"y", "x"}}, sojourn.Failed)
	s.Change(a, sojourn.Edit{RemoveTags: &[]string{"y", "absent"}}, sojourn.Ready)
	counts(s, tags.Query{}, "x=2 y=1 z=1 ")
	s.Edited(b, kit.RedriveEdit, sojourn.Ready)
	counts(s, tags.Query{}, "x=2 y=1 z=1 ")
	s.Cancel(b)
	s.Advance(sojourn.IDLife + time.Second)
	s.Must(s.Edit(b, sojourn.Edit{Action: sojourn.EditPurge}).Err, "purge")
	counts(s, tags.Query{}, "x=1 ")
	replaced := s.Enqueue(sojourn.Key("k"), sojourn.Tags("old", "both"))
	e := s.Put(s.Job(sojourn.Key("k"), sojourn.OnKeyConflict(sojourn.Replace), sojourn.Tags("both", "new")))
	kit.Same(s, "the replaced job", e.ID, replaced)
	counts(s, tags.Query{}, "both=1 new=1 x=1 ")
	_, err := listed(s).Counts(s.Ctx, tags.Query{Min: -1})
	s.Refused(err, sojourn.CodeInvalid, "a negative number")
	_, err = listed(s).Counts(s.Ctx, tags.Query{Limit: sojourn.MaxFind + 1})
	s.Refused(err, sojourn.CodeInvalid, "too large a limit")
}

func taggedJobs(s *kit.Scene) {
	c := s.Final(sojourn.Completed).Job.ID
	a, b := s.Enqueue(sojourn.Tags("other")), s.Enqueue(sojourn.Tags("x"))
	tag := func(id sojourn.ID, state sojourn.State) {
		s.Advance(time.Second)
		s.Change(id, sojourn.Edit{AddTags: &[]string{"x"}}, state)
	}
	tag(c, sojourn.Completed)
	tag(a, sojourn.Ready)
	s.Advance(time.Second)
	s.Must(s.Edit(b, sojourn.Edit{Action: sojourn.EditChange, AddTags: &[]string{"x"}}).Err, "tag again")
	for _, limit := range []int{0, 1, 2, 3} {
		tagged(s, tags.JobsQuery{Tag: "x", Limit: limit}, b, c, a)
		tagged(s, tags.JobsQuery{Tag: "x", Limit: limit, Newest: true}, a, c, b)
	}
	tagged(s, tags.JobsQuery{Tag: "nobody"})
	for name, q := range kit.InOrder(map[string]tags.JobsQuery{"no tag": {}, "a bad tag": {Tag: "a b"}, "a bad cursor": {Tag: "x", After: "7"}, "a bad limit": {Tag: "x", Limit: -1}}) {
		_, err := listed(s).Jobs(s.Ctx, q)
		s.Refused(err, sojourn.CodeInvalid, name)
	}
}

func tagsOfTenants(s *kit.Scene) {
	own := s.Enqueue(sojourn.Queue("alice"), sojourn.Tags("x", "mine"))
	for range 3 {
		s.Enqueue(sojourn.Queue("bob"), sojourn.Tags("x", "secret"))
	}
	second := s.Enqueue(sojourn.Queue("alice"), sojourn.Tags("x"))
	alice := s.Tenant("alice", access.Grant{Verbs: []access.Verb{access.VerbRead}, Queue: "alice", Kind: "*"})
	counts(alice, tags.Query{}, "x=2 mine=1 ")
	counts(alice, tags.Query{Queue: "bob"}, "")
	for _, limit := range []int{0, 1, 2} {
		tagged(alice, tags.JobsQuery{Tag: "x", Limit: limit}, own, second)
		tagged(alice, tags.JobsQuery{Tag: "x", Limit: limit, Newest: true}, second, own)
	}
	tagged(alice, tags.JobsQuery{Tag: "secret"})
}

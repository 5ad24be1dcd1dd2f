package outcomes

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/failure"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var detailTrials = []kit.Trial{
	{Name: "detail of an error", Law: "An error has a JSON detail, which the job, its history and its failure group show until an attempt ends in another way.",
		Covers: "spec:J8 spec:R13", Run: errorDetail},
	{Name: "detail that cannot be stored", Law: "A detail that is too large or is not JSON is replaced by a mark; the error is stored.",
		Covers: "spec:J8 inv:N3", Run: cutDetail},
	{Name: "detail in long histories", Law: "Details go with the entries of the history that they belong to.", Covers: "spec:J8 spec:J17", Run: trimmedDetail},
}

// withDetail is an outcome with an error and a detail.
func withDetail(c driver.Claimed, kind sojourn.OutcomeType, detail string) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: kind, Reason: "gateway", Text: "it went wrong", Detail: []byte(detail), Verdict: sojourn.Verdict{Delay: time.Second}}
}

func errorDetail(s *kit.Scene) {
	c := s.Running(sojourn.MaxAttempts(3))
	j := s.Finish(withDetail(c, sojourn.OutcomeError, `{"status":503}`), sojourn.Scheduled)
	kit.Same(s, "detail after the first attempt", string(j.ErrorDetail), `{"status":503}`)
	s.Advance(time.Second)
	s.Finish(withDetail(s.Claim(), sojourn.OutcomeError, ""), sojourn.Scheduled)
	kit.Same(s, "detail after an error without one", string(s.Get(j.ID).ErrorDetail), "")
	s.Advance(time.Second)
	j = s.Finish(withDetail(s.Claim(), sojourn.OutcomeAbort, `[1,2]`), sojourn.Failed)
	kit.Same(s, "detail of the failed job", string(j.ErrorDetail), "[1,2]")
	if groups, ok := s.Store.(failure.Store); ok { // several stores as one have no groups
		all, err := groups.Failures(s.Ctx, failure.Query{})
		s.Must(err, "Failures")
		kit.Same(s, "groups", len(all), 1)
		one, err := groups.Failures(s.Ctx, failure.Query{ID: all[0].ID})
		s.Must(err, "Failures")
		kit.Same(s, "detail of the group", string(one[0].ErrorDetail), "[1,2]")
	}
	s.Edited(j.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	kit.Same(s, "detail after the redrive", string(s.Get(j.ID).ErrorDetail), "")
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	var got []string
	for _, h := range s.History(j.ID) {
		got = append(got, h.Outcome+string(h.ErrorDetail))
	}
	kit.Same(s, "details of the history", strings.Join(got, " "), `error{"status":503} error abort[1,2] redriven completed`)
	kit.Same(s, "detail of the completed job", string(s.Get(j.ID).ErrorDetail), "")
	s.Advance(sojourn.IDLife + time.Second)
	_, err := s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{j.ID}}, sojourn.Edit{Action: sojourn.EditPurge})
	s.Must(err, "purge")
	s.Gone(j.ID)
}

func cutDetail(s *kit.Scene) {
	whole := `"` + strings.Repeat("x", sojourn.MaxError-2) + `"`
	j := s.Finish(withDetail(s.Running(), sojourn.OutcomeAbort, whole), sojourn.Failed)
	kit.Same(s, "a detail of the largest size is whole", bytes.Equal(j.ErrorDetail, []byte(whole)), true)
	j = s.Finish(withDetail(s.Running(), sojourn.OutcomeCancelled, whole+" "), sojourn.Cancelled)
	kit.Same(s, "a detail that is too large", string(j.ErrorDetail), `{"$cut":`+strconv.Itoa(sojourn.MaxError+1)+`}`)
	kit.Same(s, "its error", j.Error, "it went wrong")
	j = s.Finish(withDetail(s.Running(), sojourn.OutcomeAbort, "no JSON"), sojourn.Failed)
	if !strings.HasPrefix(string(j.ErrorDetail), `{"$`) {
		s.Fatalf("a detail that is not JSON was stored as %.80q, want a mark", j.ErrorDetail)
	}
}

func trimmedDetail(s *kit.Scene) {
	c := s.Running(sojourn.MaxAttempts(sojourn.Unlimited))
	const n = sojourn.MaxHistory + 5
	for i := range n {
		s.Finish(withDetail(c, sojourn.OutcomeError, strconv.Itoa(i+1)), sojourn.Scheduled)
		s.Advance(time.Second)
		c = s.Claim()
	}
	all, err := s.Store.History(s.Ctx, c.Job.ID, 0, sojourn.MaxFind)
	s.Must(err, "History")
	for _, h := range all {
		kit.Same(s, "detail", string(h.ErrorDetail), strconv.Itoa(int(h.Seq)))
	}
}

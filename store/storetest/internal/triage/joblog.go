package triage

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/joblog"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var joblogTrials = []kit.Trial{
	{Name: "lines of an operator", Law: "An operator writes lines to a job's log in any state of the job, and nothing else about the job changes.",
		Covers: "spec:J17 spec:X14", Run: operatorLines},
	{Name: "lines of an operator during an attempt", Law: "A line of an operator disturbs no attempt: the lines of both stand in order, and the step ends as usual.",
		Covers: "spec:J17", Run: linesDuringAttempt},
	{Name: "the bound of an operator's lines", Law: "Lines of operators are refused above the size of a log line, and have their places within the bound of the log.",
		Covers: "spec:J17", Run: operatorBounds},
	{Name: "a token writes to logs of its queues", Law: "A token without the verb operate for the job's queue and kind finds no job to write to.",
		Covers: "spec:J17 spec:H7", Run: linesByTenant},
}

// note writes a line to the log of a job.
func note(s *kit.Scene, id sojourn.ID, by, text string) (sojourn.LogLine, error) {
	s.Helper()
	if _, ok := s.Store.(joblog.Store); !ok {
		s.Skip("this store writes no lines of operators")
	}
	return joblog.Of(sojourn.NewClient(s.Store)).Write(s.Ctx, id, joblog.Line{Text: text, By: by})
}

// noted writes a line, and wants it to be the last one.
func noted(s *kit.Scene, id sojourn.ID, attempt int32, text string) {
	s.Helper()
	got, err := note(s, id, "ann", text)
	s.Must(err, "Write")
	lines := s.LogLines(id)
	last := lines[len(lines)-1]
	for what, l := range map[string]sojourn.LogLine{"the answer": got, "the last line": last} {
		s.At("time of "+what, l.At, s.Now())
		kit.Same(s, what, sojourn.LogLine{Attempt: l.Attempt, Level: l.Level, Text: l.Text, By: l.By}, sojourn.LogLine{Attempt: attempt, Level: "INFO", Text: text, By: "ann"})
	}
}

func operatorLines(s *kit.Scene) {
	ids := map[string]sojourn.ID{}
	parent := s.Enqueue(sojourn.RunAt(s.Now().Add(time.Hour)))
	ids["scheduled"], ids["blocked"] = parent, s.Enqueue(sojourn.DependsOn(parent))
	for name, state := range map[string]sojourn.State{"completed": sojourn.Completed, "failed": sojourn.Failed, "cancelled": sojourn.Cancelled} {
		ids[name] = s.Final(state).Job.ID
	}
	ids["errored"] = s.Errored().Job.ID // it passes the time of a lease
	ids["awaiting"], ids["running"] = s.Awaiting().Job.ID, s.Running().Job.ID
	ids["ready"] = s.Enqueue()
	for name, id := range ids {
		before, history := s.Get(id), kit.Text(s.History(id))
		kit.Same(s, "state", before.State.String(), name)
		noted(s, id, before.Attempt, "a line for a job that is "+name)
		noted(s, id, before.Attempt, "another line")
		kit.Same(s, "the job", kit.Text(s.Get(id)), kit.Text(before))
		kit.Same(s, "its history", kit.Text(s.History(id)), history)
	}
	_, err := note(s, 999_999_999, "ann", "text")
	s.Is(err, sojourn.ErrNotFound, "an unknown job")
	failed := ids["failed"]
	_, err = s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{failed}}, sojourn.Edit{Action: sojourn.EditRedrive})
	s.Must(err, "Edit")
	noted(s, failed, 0, "after a redrive")
	kit.Same(s, "lines of a redriven job", len(s.LogLines(failed)), 3)
}

func linesDuringAttempt(s *kit.Scene) {
	c := s.Running()
	line := func(text string) []sojourn.LogLine {
		return []sojourn.LogLine{{Level: "WARN", Text: text, By: "nobody"}}
	}
	noted(s, c.Job.ID, 1, "before")
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Log: line("of the handler")}), "Save")
	noted(s, c.Job.ID, 1, "between")
	o := kit.Completed(c)
	o.Log = line("the last of the handler")
	s.Finish(o, sojourn.Completed)
	noted(s, c.Job.ID, 1, "after")
	var got []string
	for _, l := range s.LogLines(c.Job.ID) {
		got = append(got, strings.TrimSpace(l.By+" "+l.Text))
	}
	kit.Same(s, "lines", strings.Join(got, "; "), "ann before; of the handler; ann between; the last of the handler; ann after")
	kit.Same(s, "attempts", s.Get(c.Job.ID).Attempt, int32(1))
}

func operatorBounds(s *kit.Scene) {
	c := s.Running()
	for name, text := range map[string]string{"no text": "", "blanks": " \n\t"} {
		_, err := note(s, c.Job.ID, "ann", text)
		s.Refused(err, sojourn.CodeInvalid, name)
	}
	_, err := note(s, c.Job.ID, "", "text")
	s.Refused(err, sojourn.CodeInvalid, "no name")
	_, err = note(s, c.Job.ID, "ann", strings.Repeat("x", sojourn.MaxProgress+1))
	s.Refused(err, sojourn.CodeTooLarge, "a line that is too long")
	kit.Same(s, "lines", len(s.LogLines(c.Job.ID)), 0)
	noted(s, c.Job.ID, 1, strings.Repeat("x", sojourn.MaxProgress))
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Log: make([]sojourn.LogLine, sojourn.MaxLogLines-1)}), "Save of log lines")
	for n := range 3 {
		noted(s, c.Job.ID, 1, fmt.Sprintf("line %d", n))
	}
	lines := s.LogLines(c.Job.ID)
	kit.Same(s, "lines", len(lines), sojourn.MaxLogLines)
	kit.Same(s, "dropped", lines[1].Dropped, int64(3))
	kit.Same(s, "who has written the first line", lines[0].By, "ann")
}

func linesByTenant(s *kit.Scene) {
	id := s.Enqueue()
	operate := []access.Verb{access.VerbRead, access.VerbOperate}
	before := s.Picture(id)
	for name, g := range map[string]access.Grant{"other": {Verbs: operate, Queue: "other", Kind: "*"}, "kind": {Verbs: operate, Queue: kit.Queue, Kind: "other"},
		"unseen": {Verbs: operate, Queue: "un", Kind: kit.Kind}} {
		_, err := note(s.Tenant(name, g), id, "ann", "text")
		s.Is(err, sojourn.ErrNotFound, "a token for "+name)
	}
	for name, verb := range map[string]access.Verb{"reader": access.VerbRead, "worker": access.VerbWork} {
		_, err := note(s.Tenant(name, access.Grant{Verbs: []access.Verb{verb}, Queue: kit.Queue, Kind: "*"}), id, "ann", "text")
		if err == nil {
			s.Errorf("a token with the verb %s writes to the log", verb)
		}
	}
	s.Unchanged(id, before, "refused lines")
	kit.Same(s, "lines", len(s.LogLines(id)), 0)
	mine := s.Tenant("mine", access.Grant{Verbs: operate, Queue: kit.Queue, Kind: "*"})
	for by, want := range map[string]string{"ann": "mine/ann", "": "mine"} {
		got, err := note(mine, id, by, "text")
		s.Must(err, "Write with a token")
		kit.Same(s, "who", got.By, want)
	}
	kit.Same(s, "lines", len(s.LogLines(id)), 2)
}

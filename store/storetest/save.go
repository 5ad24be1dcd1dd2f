package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var saveTrials = []trial{
	{"save a checkpoint", "A checkpoint is stored under the lease, extends it, and is what later attempts start from.",
		"tr:L2 spec:J4 spec:J23 inv:C4 spec:L2", saveCheckpoint},
	{"save progress", "Progress replaces the text before it, cut at its limit.", "tr:L2 inv:C3 inv:F5", saveProgress},
	{"save many", "Each item of a Save is answered for itself.", "tr:L2 tr:L5 inv:P4 inv:N3", saveMany},
	{"the job log", "A job keeps its first log line and its newest 99, and says how many were dropped.", "spec:J17 spec:X14 inv:C3", jobLog},
	{"the log of the last moment", "Log lines that come with an outcome are stored with it; those of a lost step are not.",
		"spec:J17 tr:L5 inv:F2", logWithOutcome},
}

func saveCheckpoint(s *scene) {
	c := s.running(steady(time.Second))
	s.advance(20 * time.Second)
	s.must(s.save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("page 7")}), "Save")
	j := s.state(c.Job.ID, sojourn.Running)
	same(s, "checkpoint", string(j.Checkpoint), "page 7")
	s.at("wake_at", j.WakeAt, s.now().Add(lease))
	s.must(s.save(driver.Saved{Lease: c.Lease}), "Save of nothing")
	same(s, "checkpoint", string(s.get(c.Job.ID).Checkpoint), "page 7")
	s.finish(failure(c), sojourn.Scheduled)
	s.advance(time.Second)
	d := s.claim(by("w2"))
	same(s, "checkpoint in the next attempt", string(d.Job.Checkpoint), "page 7")
	s.is(s.save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("zombie")}), sojourn.ErrLeaseLost, "a zombie's Save")
	s.must(s.save(driver.Saved{Lease: d.Lease, Checkpoint: []byte{}}), "Save of an empty checkpoint")
	same(s, "checkpoint", string(s.get(c.Job.ID).Checkpoint), "")
	v := sojourn.Verdict{Checkpoint: []byte("from the retry handler"), Delay: sojourn.Now}
	o := failure(d)
	o.Verdict = v
	s.report(o)
	same(s, "checkpoint", string(s.claim().Job.Checkpoint), "from the retry handler")
}

func saveProgress(s *scene) {
	c := s.running()
	s.advance(time.Second)
	for _, p := range []string{"10 %", "20 % ü", ""} {
		s.must(s.save(driver.Saved{Lease: c.Lease, Progress: &p}), "Save")
		same(s, "progress", s.get(c.Job.ID).Progress, p)
	}
	long := strings.Repeat("ü", sojourn.MaxProgress)
	s.must(s.save(driver.Saved{Lease: c.Lease, Progress: &long}), "Save of a long text")
	same(s, "progress", s.get(c.Job.ID).Progress, sojourn.Cut(long, sojourn.MaxProgress))
	s.at("wake_at", s.get(c.Job.ID).WakeAt, s.now().Add(lease))
}

func saveMany(s *scene) {
	s.open(options{MaxBytes: 1000})
	s.enqueueMany(4)
	cs := s.claimMany(upTo(4))
	s.finish(released(cs[2]), sojourn.Ready)
	text := "fine"
	errs, err := s.store.Save(s.ctx, []driver.Saved{
		{Lease: cs[0].Lease, Checkpoint: make([]byte, 1000)},
		{Lease: cs[1].Lease, Checkpoint: make([]byte, 1001)},
		{Lease: cs[2].Lease, Checkpoint: []byte("lost")},
		{Lease: cs[3].Lease, Progress: &text},
		{Lease: sojourn.Lease{ID: 999_999_999, Epoch: 1, Worker: "w1"}, Checkpoint: []byte("x")},
	})
	s.must(err, "Save")
	same(s, "answers", len(errs), 5)
	s.must(errs[0].Err, "a checkpoint at the limit")
	s.refused(errs[1].Err, sojourn.CodeTooLarge, "a checkpoint above the limit")
	s.is(errs[2].Err, sojourn.ErrLeaseLost, "a lease that was released")
	s.must(errs[3].Err, "progress")
	s.is(errs[4].Err, sojourn.ErrLeaseLost, "an unknown job")
	same(s, "checkpoint", len(s.get(cs[0].Job.ID).Checkpoint), 1000)
	same(s, "checkpoint", len(s.get(cs[1].Job.ID).Checkpoint), 0)
	same(s, "checkpoint", len(s.get(cs[2].Job.ID).Checkpoint), 0)
	same(s, "progress", s.get(cs[3].Job.ID).Progress, "fine")
	s.finish(completed(cs[1]), sojourn.Completed) // a refusal leaves the lease standing
}

func jobLog(s *scene) {
	c := s.running(steady(time.Second))
	same(s, "lines", len(s.logLines(c.Job.ID)), 0)
	n := 0
	write := func(lines int) {
		var batch []sojourn.LogLine
		for range lines {
			batch = append(batch, sojourn.LogLine{Level: "INFO", Text: fmt.Sprintf("line %d", n)})
			n++
		}
		s.must(s.save(driver.Saved{Lease: c.Lease, Log: batch}), "Save of log lines")
	}
	write(1)
	s.advance(time.Second)
	write(49)
	write(50)
	lines := s.logLines(c.Job.ID)
	same(s, "lines", len(lines), sojourn.MaxLogLines)
	for i, l := range lines {
		same(s, "text", l.Text, fmt.Sprintf("line %d", i))
		same(s, "level", l.Level, "INFO")
		same(s, "attempt", l.Attempt, 1)
		same(s, "dropped", l.Dropped, 0)
	}
	s.at("time of the first line", lines[0].At, s.now().Add(-time.Second))
	s.at("time of the second line", lines[1].At, s.now())
	write(3)
	write(60)
	lines = s.logLines(c.Job.ID)
	same(s, "lines", len(lines), sojourn.MaxLogLines)
	same(s, "the first line", lines[0].Text, "line 0")
	same(s, "the second line", lines[1].Text, "line 64")
	same(s, "the last line", lines[99].Text, "line 162")
	same(s, "dropped", lines[1].Dropped, 63)
	long := strings.Repeat("x", 2*sojourn.MaxProgress)
	s.must(s.save(driver.Saved{Lease: c.Lease, Log: []sojourn.LogLine{{Level: "WARN", Text: long}}}), "Save of a long line")
	same(s, "a long line", s.logLines(c.Job.ID)[99].Text, sojourn.Cut(long, sojourn.MaxProgress))
	s.finish(failure(c), sojourn.Scheduled)
	s.advance(time.Second)
	d := s.claim()
	s.must(s.save(driver.Saved{Lease: d.Lease, Log: []sojourn.LogLine{{Level: "INFO", Text: "again"}}}), "Save")
	same(s, "attempt of a line of the second attempt", s.logLines(c.Job.ID)[99].Attempt, 2)
}

func logWithOutcome(s *scene) {
	c := s.running()
	o := completed(c)
	o.Log = []sojourn.LogLine{{Level: "INFO", Text: "bye"}}
	s.finish(o, sojourn.Completed)
	lines := s.logLines(c.Job.ID)
	if len(lines) != 1 || lines[0].Text != "bye" || lines[0].Attempt != 1 {
		s.Fatalf("the log is %+v, want the line that came with the outcome", lines)
	}
	s.at("time of the line", lines[0].At, s.now())
	s.reports(o, driver.FinishRepeated)
	o.Type = sojourn.OutcomeAbort
	s.reports(o, driver.FinishLost)
	s.is(s.save(driver.Saved{Lease: c.Lease, Log: o.Log}), sojourn.ErrLeaseLost, "a log line after the end")
	same(s, "lines", len(s.logLines(c.Job.ID)), 1)
}

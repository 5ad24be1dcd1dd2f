package claims

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var saveTrials = []kit.Trial{
	{Name: "save a checkpoint", Law: "A checkpoint is stored under the lease, extends it, and is what later attempts start from.",
		Covers: "tr:L2 spec:J4 spec:J23 inv:C4 spec:L2", Run: saveCheckpoint},
	{Name: "save progress", Law: "Progress replaces the text before it, cut at its limit.", Covers: "tr:L2 inv:C3 inv:F5", Run: saveProgress},
	{Name: "save many", Law: "Each item of a Save is answered for itself.", Covers: "tr:L2 tr:L5 inv:P4 inv:N3", Run: saveMany},
	{Name: "sizes of checkpoints in the history", Law: "The entry of a step in the history has the size that the job's checkpoint had at its end.", Covers: "spec:J17", Run: checkpointSizes},
	{Name: "the job log", Law: "A job keeps its first log line and its newest 99, and says how many were dropped.", Covers: "spec:J17 spec:X14 inv:C3", Run: jobLog},
	{Name: "the log of the last moment", Law: "Log lines that come with an outcome are stored with it; those of a lost step are not.",
		Covers: "spec:J17 tr:L5 inv:F2", Run: logWithOutcome},
}

func saveCheckpoint(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Second))
	s.Advance(20 * time.Second)
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("page 7")}), "Save")
	j := s.State(c.Job.ID, sojourn.Running)
	kit.Same(s, "checkpoint", string(j.Checkpoint), "page 7")
	s.At("wake_at", j.WakeAt, s.Now().Add(kit.LeaseTime))
	s.Must(s.Save(driver.Saved{Lease: c.Lease}), "Save of nothing")
	kit.Same(s, "checkpoint", string(s.Get(c.Job.ID).Checkpoint), "page 7")
	s.Finish(kit.Failure(c), sojourn.Scheduled)
	s.Advance(time.Second)
	d := s.Claim(kit.By("w2"))
	kit.Same(s, "checkpoint in the next attempt", string(d.Job.Checkpoint), "page 7")
	s.Is(s.Save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("zombie")}), sojourn.ErrLeaseLost, "a zombie's Save")
	s.Must(s.Save(driver.Saved{Lease: d.Lease, Checkpoint: []byte{}}), "Save of an empty checkpoint")
	kit.Same(s, "checkpoint", string(s.Get(c.Job.ID).Checkpoint), "")
	v := sojourn.Verdict{Checkpoint: []byte("from the retry handler"), Delay: sojourn.Now}
	o := kit.Failure(d)
	o.Verdict = v
	s.Report(o)
	kit.Same(s, "checkpoint", string(s.Claim().Job.Checkpoint), "from the retry handler")
}

func saveProgress(s *kit.Scene) {
	c := s.Running()
	s.Advance(time.Second)
	for _, p := range []string{"10 %", "20 % ü", ""} {
		s.Must(s.Save(driver.Saved{Lease: c.Lease, Progress: &p}), "Save")
		kit.Same(s, "progress", s.Get(c.Job.ID).Progress, p)
	}
	long := strings.Repeat("ü", sojourn.MaxProgress)
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Progress: &long}), "Save of a long text")
	kit.Same(s, "progress", s.Get(c.Job.ID).Progress, sojourn.Cut(long, sojourn.MaxProgress))
	s.At("wake_at", s.Get(c.Job.ID).WakeAt, s.Now().Add(kit.LeaseTime))
}

func saveMany(s *kit.Scene) {
	s.Open(kit.Options{MaxBytes: 1000})
	s.EnqueueMany(4)
	cs := s.ClaimMany(kit.UpTo(4))
	s.Finish(kit.Released(cs[2]), sojourn.Ready)
	text := "fine"
	errs, err := s.Store.Save(s.Ctx, []driver.Saved{
		{Lease: cs[0].Lease, Checkpoint: make([]byte, 1000)},
		{Lease: cs[1].Lease, Checkpoint: make([]byte, 1001)},
		{Lease: cs[2].Lease, Checkpoint: []byte("lost")},
		{Lease: cs[3].Lease, Progress: &text},
		{Lease: sojourn.Lease{ID: 999_999_999, Epoch: 1, Worker: "w1"}, Checkpoint: []byte("x")},
	})
	s.Must(err, "Save")
	kit.Same(s, "answers", len(errs), 5)
	s.Must(errs[0].Err, "a checkpoint at the limit")
	s.Refused(errs[1].Err, sojourn.CodeTooLarge, "a checkpoint above the limit")
	s.Is(errs[2].Err, sojourn.ErrLeaseLost, "a lease that was released")
	s.Must(errs[3].Err, "progress")
	s.Is(errs[4].Err, sojourn.ErrLeaseLost, "an unknown job")
	kit.Same(s, "checkpoint", len(s.Get(cs[0].Job.ID).Checkpoint), 1000)
	kit.Same(s, "checkpoint", len(s.Get(cs[1].Job.ID).Checkpoint), 0)
	kit.Same(s, "checkpoint", len(s.Get(cs[2].Job.ID).Checkpoint), 0)
	kit.Same(s, "progress", s.Get(cs[3].Job.ID).Progress, "fine")
	s.Finish(kit.Completed(cs[1]), sojourn.Completed) // a refusal leaves the lease standing
}

func jobLog(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Second))
	kit.Same(s, "lines", len(s.LogLines(c.Job.ID)), 0)
	n := 0
	write := func(lines int) {
		var batch []sojourn.LogLine
		for range lines {
			batch = append(batch, sojourn.LogLine{Level: "INFO", Text: fmt.Sprintf("line %d", n)})
			n++
		}
		s.Must(s.Save(driver.Saved{Lease: c.Lease, Log: batch}), "Save of log lines")
	}
	write(1)
	s.Advance(time.Second)
	write(49)
	write(50)
	lines := s.LogLines(c.Job.ID)
	kit.Same(s, "lines", len(lines), sojourn.MaxLogLines)
	for i, l := range lines {
		kit.Same(s, "text", l.Text, fmt.Sprintf("line %d", i))
		kit.Same(s, "level", l.Level, "INFO")
		kit.Same(s, "attempt", l.Attempt, 1)
		kit.Same(s, "dropped", l.Dropped, 0)
	}
	s.At("time of the first line", lines[0].At, s.Now().Add(-time.Second))
	s.At("time of the second line", lines[1].At, s.Now())
	write(3)
	write(60)
	lines = s.LogLines(c.Job.ID)
	kit.Same(s, "lines", len(lines), sojourn.MaxLogLines)
	kit.Same(s, "the first line", lines[0].Text, "line 0")
	kit.Same(s, "the second line", lines[1].Text, "line 64")
	kit.Same(s, "the last line", lines[99].Text, "line 162")
	kit.Same(s, "dropped", lines[1].Dropped, 63)
	long := strings.Repeat("x", 2*sojourn.MaxProgress)
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Log: []sojourn.LogLine{{Level: "WARN", Text: long}}}), "Save of a long line")
	kit.Same(s, "a long line", s.LogLines(c.Job.ID)[99].Text, sojourn.Cut(long, sojourn.MaxProgress))
	s.Finish(kit.Failure(c), sojourn.Scheduled)
	s.Advance(time.Second)
	d := s.Claim()
	s.Must(s.Save(driver.Saved{Lease: d.Lease, Log: []sojourn.LogLine{{Level: "INFO", Text: "again"}}}), "Save")
	kit.Same(s, "attempt of a line of the second attempt", s.LogLines(c.Job.ID)[99].Attempt, 2)
}

func logWithOutcome(s *kit.Scene) {
	c := s.Running()
	o := kit.Completed(c)
	o.Log = []sojourn.LogLine{{Level: "INFO", Text: "bye"}}
	s.Finish(o, sojourn.Completed)
	lines := s.LogLines(c.Job.ID)
	if len(lines) != 1 || lines[0].Text != "bye" || lines[0].Attempt != 1 {
		s.Fatalf("the log is %+v, want the line that came with the outcome", lines)
	}
	s.At("time of the line", lines[0].At, s.Now())
	s.Reports(o, driver.FinishRepeated)
	o.Type = sojourn.OutcomeAbort
	s.Reports(o, driver.FinishLost)
	s.Is(s.Save(driver.Saved{Lease: c.Lease, Log: o.Log}), sojourn.ErrLeaseLost, "a log line after the end")
	kit.Same(s, "lines", len(s.LogLines(c.Job.ID)), 1)
}

func checkpointSizes(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Second))
	id := c.Job.ID
	text := "progress is no checkpoint"
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Progress: &text}), "Save of progress")
	s.Finish(kit.Failure(c), sojourn.Scheduled)
	for _, size := range []int{10, 0, 1000} {
		s.Advance(time.Second)
		c = s.Claim()
		if size > 0 {
			s.Must(s.Save(driver.Saved{Lease: c.Lease, Checkpoint: make([]byte, size)}), "Save")
		}
		if size < 1000 {
			s.Finish(kit.Failure(c), sojourn.Scheduled)
		}
	}
	s.Finish(kit.Abort(c), sojourn.Failed)
	sizes := func() (out []int64) {
		for _, h := range s.History(id) {
			out = append(out, h.CheckpointBytes)
		}
		return out
	}
	kit.Same(s, "sizes", kit.Text(sizes()), kit.Text([]int64{0, 10, 10, 1000}))
	page, err := s.Store.History(s.Ctx, id, 2, 1)
	s.Must(err, "History")
	kit.Same(s, "size on a page", page[0].CheckpointBytes, int64(10))
	_, err = s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{id}}, sojourn.Edit{Action: sojourn.EditRedrive})
	s.Must(err, "Edit")
	kit.Same(s, "sizes after a redrive", kit.Text(sizes()[:4]), kit.Text([]int64{0, 10, 10, 1000}))
	kit.Same(s, "size of what is no step", sizes()[4], int64(0))
}

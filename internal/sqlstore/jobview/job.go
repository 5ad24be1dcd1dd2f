// Package jobview builds jobs as their readers see them, claims and lists alike: from the row of a
// job, and from the further rows that only some jobs have (checkpoint, progress, taken responses,
// last error, history).
package jobview

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// Fill makes *j of a live row, as applications see it. It leaves out the data of sj_job (args,
// meta, tags), which callers read in other ways.
func Fill(l *jobrow.Row, j *sojourn.Job, c *txn.Core) {
	*j = sojourn.Job{ID: l.ID, Kind: l.Kind, Queue: l.Queue, Key: l.Key, Priority: l.Priority, Weight: l.Weight, RunAt: jobrow.Time(l.RunAt), Policy: l.Policy,
		State: l.State, Resumed: l.Resumed, Instance: c.Instance, Generation: l.Generation, Stage: l.Stage, Epoch: l.Epoch, Attempt: l.Attempt,
		Failures: l.Failures, Crashes: l.Crashes, Purpose: l.Purpose, Kept: l.Kept, WaitsFor: l.WaitsFor, ChildrenDone: l.ChildrenDone, UpdatedAt: jobrow.Time(l.UpdatedAt)}
	if l.State == sojourn.Running {
		j.Worker, j.StartedAt, j.LeaseUntil = l.Worker, jobrow.Time(l.BeganAt), jobrow.Time(l.LeaseUntil)
	}
	if l.WakeAt < jobrow.Never {
		j.WakeAt = jobrow.Time(l.WakeAt)
	}
	if l.State == sojourn.Awaiting || l.Purpose == sojourn.PurposePoll {
		j.Waiting = &sojourn.Waiting{Mode: l.Wait.Mode, Keys: slices.Clone(l.Wait.Keys), Until: jobrow.Time(l.WaitUntil), Beat: jobrow.Time(l.BeatUntil), Poll: jobrow.Time(l.PollAt), Polls: l.Wait.Polls}
		if len(l.Wait.Keys) == 0 && l.Key != "" {
			j.Waiting.Keys = []string{l.Key}
		}
	}
}

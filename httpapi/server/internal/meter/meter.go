// Package meter turns what a store knows into metrics.
package meter

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/workflow"
)

// gauges makes gauges of a registry.
func gauges(state *prometheus.Registry) func(name, help string, labels ...string) *prometheus.GaugeVec {
	return func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		state.MustRegister(v)
		return v
	}
}

// Store adds the gauges of the store as a whole.
func Store(state *prometheus.Registry, status sojourn.Status) {
	vec := gauges(state)
	vec("sojourn_store_bytes", "Size of the store on disk, in bytes.").WithLabelValues().Set(float64(status.Bytes))
	vec("sojourn_wakeups_info", "1; the label says how commits of other processes wake this server: notify, inotify, poll, or none if there are no other processes.", "way").
		WithLabelValues(cmp.Or(status.Wakeups, "none")).Set(1)
	vec("sojourn_dead_leases_info", "1; the label says when the leases of this process would end if it died: at_once, by_time, or none if there are no other processes.", "end").
		WithLabelValues(cmp.Or(status.DeadLeases, "none")).Set(1)
}

// Queues adds the gauges of queues.
func Queues(state *prometheus.Registry, queues []sojourn.QueueStatus, now time.Time) {
	vec := gauges(state)
	jobs := vec("sojourn_jobs", "Number of jobs.", "queue", "state")
	used := vec("sojourn_limit_used", "Weight in flight.", "queue")
	most := vec("sojourn_limit_capacity", "Limit of the weight in flight; absent for queues without a limit.", "queue")
	paused := vec("sojourn_queue_paused", "1 while the queue is paused.", "queue")
	stalled := vec("sojourn_stalled_jobs", "Running jobs whose lease has expired.", "queue")
	oldest := vec("sojourn_oldest_ready_seconds", "Age of the oldest ready job; 0 without ready jobs.", "queue")
	unhandled := vec("sojourn_unhandled_jobs", "Ready jobs of kinds that no worker has tried to claim within a day.", "queue", "kind")
	for _, q := range queues {
		for s, n := range q.Counts {
			jobs.WithLabelValues(q.Name, s.String()).Set(float64(n))
		}
		used.WithLabelValues(q.Name).Set(float64(q.InFlight))
		stalled.WithLabelValues(q.Name).Set(float64(q.Stalled))
		if q.Settings.Limit > 0 {
			most.WithLabelValues(q.Name).Set(float64(q.Settings.Limit))
		}
		wait := 0.0
		if !q.OldestReady.IsZero() {
			wait = max(now.Sub(q.OldestReady).Seconds(), 0)
		}
		paused.WithLabelValues(q.Name).Set(boolGauge(q.Settings.Paused))
		oldest.WithLabelValues(q.Name).Set(wait)
		for kind, n := range q.Unhandled {
			unhandled.WithLabelValues(q.Name, kind).Set(float64(n))
		}
	}
}

// Schedules adds the gauges of all schedules that the caller in ctx may see.
func Schedules(ctx context.Context, state *prometheus.Registry, keeper schedule.Store, now time.Time) error {
	vec := gauges(state)
	count := func(name, help string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"schedule"})
		state.MustRegister(v)
		return v
	}
	lag := vec("sojourn_schedule_lag_seconds", "Seconds since the next tick of the schedule is due; 0 if none is due, or while it is paused.", "schedule")
	stopped := vec("sojourn_schedule_stopped", "1 while ticks of the schedule make no jobs because of a problem.", "schedule")
	paused := vec("sojourn_schedule_paused", "1 while the schedule is paused.", "schedule")
	runs := count("sojourn_schedule_runs_total", "Jobs that the schedule has made.")
	skipped := count("sojourn_schedule_skipped_total", "Ticks of the schedule without a job.")
	for after := ""; ; {
		page, err := keeper.Schedules(ctx, "", after, sojourn.MaxFind)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, d := range page {
			after = d.Name
			stopped.WithLabelValues(d.Name).Set(boolGauge(d.Problem != ""))
			paused.WithLabelValues(d.Name).Set(boolGauge(d.Paused))
			lag.WithLabelValues(d.Name).Set(tickLag(&d, now).Seconds())
			runs.WithLabelValues(d.Name).Add(float64(d.Runs))
			skipped.WithLabelValues(d.Name).Add(float64(d.Skipped))
		}
	}
}

// maxWorkflows bounds the workflows of a scrape. Their names are no labels, because each order of a
// shop may be a workflow.
const maxWorkflows = 10_000

// Workflows adds the gauges of the workflows that the caller in ctx may see. It reads those that
// have not ended first, so that these are exact while they are at most maxWorkflows.
func Workflows(ctx context.Context, state *prometheus.Registry, keeper workflow.Store, now time.Time) error {
	vec := gauges(state)
	number := vec("sojourn_workflows", "Number of workflows, counted up to 10,000 that have not ended and 10,000 that have.", "state")
	problems := vec("sojourn_workflow_problems", "Workflows with a callback that could not be enqueued, or a member that could not be redriven.")
	oldest := vec("sojourn_workflow_oldest_seconds", "Age of the oldest workflow that has not ended; 0 without one.")
	age, wrong := 0.0, 0
	for _, states := range [][]workflow.State{{workflow.Open, workflow.Running}, {workflow.Completed, workflow.Failed, workflow.Cancelled}} {
		for _, s := range states {
			number.WithLabelValues(string(s)).Set(0)
		}
		after, seen := "", 0
		for seen < maxWorkflows {
			page, err := keeper.Workflows(ctx, workflow.Query{States: states, After: after, Limit: sojourn.MaxFind})
			if err != nil {
				return err
			}
			if len(page) == 0 {
				break
			}
			for _, w := range page {
				number.WithLabelValues(string(w.State)).Add(1)
				if w.Problem != "" {
					wrong++
				}
				if !w.State.Final() {
					age = max(age, now.Sub(w.CreatedAt).Seconds())
				}
			}
			after, seen = page[len(page)-1].Name, seen+len(page)
		}
	}
	problems.WithLabelValues().Set(float64(wrong))
	oldest.WithLabelValues().Set(age)
	return nil
}

func boolGauge(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// tickLag is how long the next tick of a schedule is overdue.
func tickLag(d *schedule.Schedule, now time.Time) time.Duration {
	after := d.UpdatedAt
	if d.LastTick.After(after) {
		after = d.LastTick
	}
	next, err := d.Ticks(after, 1)
	if err != nil || d.Paused || len(next) == 0 {
		return 0
	}
	return max(now.Sub(next[0]), 0)
}

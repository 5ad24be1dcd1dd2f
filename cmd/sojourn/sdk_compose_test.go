package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/worker"
)

// scenarioSchedule is a schedule as the file has it; durations are in seconds.
type scenarioSchedule struct {
	Name, Cron, Zone string
	Every, Offset    int
	CatchUp          int `json:"catch_up"`
	Overlap          schedule.Overlap
	Job              scenarioJob
}

func (s scenarioSchedule) schedule() schedule.Schedule {
	return schedule.Schedule{Name: s.Name, Cron: s.Cron, Zone: s.Zone, Every: time.Duration(s.Every) * time.Second, Offset: time.Duration(s.Offset) * time.Second,
		CatchUp: s.CatchUp, Overlap: s.Overlap, Job: s.Job.job()}
}

// depends gives a job its dependencies: ids, jobs of the same call, or jobs of earlier steps.
func (d *scenarioDriver) depends(to *sojourn.Job, j scenarioJob, batch map[string]sojourn.ID) {
	for _, on := range j.DependsOn {
		dep := sojourn.Dependency{OnFailure: on.OnFailure}
		for _, name := range on.Jobs {
			id, text := sojourn.ID(0), ""
			switch name := name.(type) {
			case float64:
				id = sojourn.ID(name)
			case string:
				text = name
			}
			if text != "" {
				if id = batch[text]; id == 0 {
					id = d.ids[text]
				}
			}
			dep.Jobs = append(dep.Jobs, id)
		}
		sojourn.WithDependency(dep)(to)
	}
}

// compose does the steps about dependencies, schedules, workflows and events.
func (d *scenarioDriver) compose(ctx context.Context, s scenarioStep) (done bool, got any, err error) {
	id := d.named(s)
	var on []sojourn.ID
	if s.On != nil {
		for _, name := range *s.On {
			on = append(on, d.ids[name])
		}
	}
	switch s.Do {
	case "by_key":
		j, err := d.client.GetByKey(ctx, s.Key, s.Kind)
		if err == nil {
			d.name(s, j.ID)
		}
		return true, nil, err
	case "purge":
		_, err := d.client.Jobs().Edit(ctx, id, sojourn.Edit{Action: sojourn.EditPurge})
		return true, nil, err
	case "depend":
		return true, nil, d.client.Jobs().DependOn(ctx, id, sojourn.Dependency{Jobs: on})
	case "undepend":
		return true, nil, d.client.Jobs().Undepend(ctx, id, on...)
	case "schedule":
		got, err := d.schedule(ctx, s)
		return true, got, err
	case "events":
		got, err := d.events(ctx, s)
		return true, got, err
	case "workflow":
		got, err := d.workflow(ctx, s)
		return true, got, err
	}
	return false, nil, nil
}

func (d *scenarioDriver) name(s scenarioStep, id sojourn.ID) {
	var name string
	if json.Unmarshal(s.As, &name) == nil {
		d.ids[name] = id
	}
}

// shownSchedule is what the file compares of a schedule.
type shownSchedule struct {
	Name   string `json:"name"`
	Text   string `json:"text"`
	Paused bool   `json:"paused"`
	Runs   int64  `json:"runs"`
	Next   int    `json:"next"`
}

func (d *scenarioDriver) schedule(ctx context.Context, s scenarioStep) (any, error) {
	calls := schedule.Of(d.client)
	show := func(c schedule.Schedule, err error) (any, error) {
		return shownSchedule{c.Name, c.Text, c.Paused, c.Runs, len(c.Next)}, err
	}
	switch s.How {
	case "test":
		return show(calls.Test(ctx, s.Schedule.schedule()))
	case "set":
		return show(calls.Set(ctx, s.Schedule.schedule()))
	case "declare":
		return show(calls.Declare(ctx, s.Schedule.schedule()))
	case "get":
		return show(calls.Get(ctx, s.Name))
	case "pause":
		return nil, calls.Pause(ctx, s.Name)
	case "resume":
		return nil, calls.Resume(ctx, s.Name)
	case "delete":
		return nil, calls.Delete(ctx, s.Name)
	case "run":
		id, err := calls.RunNow(ctx, s.Name)
		d.name(s, id)
		return nil, err
	case "list":
		names := []string{}
		for c, err := range calls.All(ctx, s.Name) {
			if err != nil {
				return nil, err
			}
			names = append(names, c.Name)
		}
		return names, nil
	}
	return nil, errors.New("no such call about schedules")
}

// followHandlers are the kinds that follow up.
func (d *scenarioDriver) followHandlers(w *worker.Worker) {
	handle := func(kind string, fn func(ctx context.Context, j *sojourn.Job) error) {
		worker.Handle(w, sojourn.Kind[[]byte]{Name: kind, Codec: sojourn.Bytes}, func(ctx context.Context, j *sojourn.Job, _ []byte) error { return fn(ctx, j) })
	}
	handle("follow", func(_ context.Context, j *sojourn.Job) error {
		if err := j.SetResult("began"); err != nil {
			return err
		}
		var key string
		err := json.Unmarshal(j.Args, &key)
		return errors.Join(err, sojourn.Then(sojourn.NewJob("echo", j.Args, sojourn.Key(key))))
	})
	handle("staged", func(_ context.Context, j *sojourn.Job) error {
		if j.Stage == 0 {
			return sojourn.WithCheckpoint([]byte(`{"from":0}`), sojourn.Advance("held"))
		}
		return j.SetResult(json.RawMessage(j.Checkpoint))
	})
	handle("detailed", func(_ context.Context, j *sojourn.Job) error {
		if err := j.SetResult(json.RawMessage(`{"left":0}`)); err != nil {
			return err
		}
		return sojourn.WithCheckpoint([]byte(`{"row":17}`), sojourn.Abort(sojourn.WithDetail(map[string]int{"sku": 4}, sojourn.WithReason("declined", errors.New("no stock")))))
	})
	handle("collect", func(ctx context.Context, j *sojourn.Job) error {
		parents, err := j.Parents(ctx)
		var all []json.RawMessage
		for _, p := range parents {
			all = append(all, p.Result)
		}
		return errors.Join(err, j.SetResult(all))
	})
	handle("split", func(ctx context.Context, j *sojourn.Job) error {
		var parts []string
		if err := json.Unmarshal(j.Args, &parts); err != nil {
			return err
		}
		if !j.ChildrenDone {
			var children []*sojourn.Job
			for _, p := range parts {
				b, err := json.Marshal(p)
				if err != nil {
					return err
				}
				children = append(children, sojourn.NewJob("echo", b, sojourn.Name(p)))
			}
			return sojourn.AwaitJobs(time.Minute, children...)
		}
		var all [][2]any
		for c, err := range j.Children(ctx) {
			if err != nil {
				return err
			}
			all = append(all, [2]any{c.Name, json.RawMessage(c.Result)})
		}
		return j.SetResult(all)
	})
	handle("refused", func(_ context.Context, j *sojourn.Job) error {
		if j.Epoch == 1 {
			return sojourn.Then(sojourn.NewJob("echo", []byte("1"), sojourn.DependsOn(999999)))
		}
		return j.SetResult("ran")
	})
}

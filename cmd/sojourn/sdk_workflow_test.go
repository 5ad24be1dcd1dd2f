package main

import (
	"context"
	"errors"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/workflow"
)

// scenarioMember is a member of a workflow as the file has it.
type scenarioMember struct {
	Name      string
	Job       scenarioJob
	After     []string
	OnFailure map[string]sojourn.OnFailure `json:"on_failure"`
}

func (s scenarioStep) members() (ms []workflow.Member) {
	for _, m := range s.Members {
		ms = append(ms, workflow.Member{Name: m.Name, Job: m.Job.job(), After: m.After, OnFailure: m.OnFailure})
	}
	return ms
}

// workflow does a step about workflows.
func (d *scenarioDriver) workflow(ctx context.Context, s scenarioStep) (any, error) {
	calls := workflow.Of(d.client)
	switch s.How {
	case "start":
		w := workflow.Workflow{Name: s.Name, Members: s.members(), Open: s.Open}
		if s.OnEnd != nil {
			w.EndJob = s.OnEnd.job()
		}
		return calls.Start(ctx, &w)
	case "append":
		return calls.Append(ctx, s.Name, s.members()...)
	case "close":
		return calls.Close(ctx, s.Name)
	case "cancel":
		return calls.Cancel(ctx, s.Name, s.Reason)
	case "redrive":
		return calls.Redrive(ctx, s.Name, s.Reason)
	case "get":
		return calls.Get(ctx, s.Name)
	case "wait":
		return calls.Wait(ctx, s.Name)
	case "members":
		var all []string
		for m, err := range calls.Members(ctx, s.Name) {
			if err != nil {
				return nil, err
			}
			all = append(all, m.Name+" "+m.State.String())
		}
		return all, nil
	case "list":
		var all []string
		for w, err := range calls.All(ctx, s.Name) {
			if err != nil {
				return nil, err
			}
			all = append(all, w.Name)
		}
		return all, nil
	}
	return nil, errors.New("no such call about workflows")
}

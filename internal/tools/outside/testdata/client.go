//go:build ignore

// A user's program. Package api is generated from the OpenAPI document alone.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"outside/api"
)

func main() {
	if err := live(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// refused is an answer without the body that the status should have brought.
func refused(what, status string, body []byte) error {
	return fmt.Errorf("%s: %s: %s", what, status, body)
}

func live(ctx context.Context, url, token string) error {
	c, err := api.NewClientWithResponses(url, api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}))
	if err != nil {
		return err
	}
	key, wait := "order-42", "30s"
	made, err := c.EnqueueJobWithResponse(ctx, api.NewJob{Kind: "charge", Key: &key, Args: map[string]any{"cents": 1999}, Tags: &[]string{"a"}})
	if err != nil {
		return err
	}
	if made.JSON201 == nil {
		return refused("enqueue", made.Status(), made.Body)
	}
	claimed, err := c.ClaimWithResponse(ctx, api.ClaimRequest{Worker: "outside", Queues: &[]string{"default"}, Kinds: &[]string{"charge"}, Max: 1, Wait: &wait})
	if err != nil {
		return err
	}
	if claimed.JSON200 == nil || len(*claimed.JSON200.Jobs) != 1 {
		return refused("claim", claimed.Status(), claimed.Body)
	}
	step := (*claimed.JSON200.Jobs)[0]
	if step.Purpose != "start" || step.Job.Id != made.JSON201.Id || fmt.Sprint(step.Job.Args) != "map[cents:1999]" {
		return refused("claim of the job", claimed.Status(), claimed.Body)
	}
	if err := finish(ctx, c, step.Lease); err != nil {
		return err
	}
	if err := look(ctx, c, made.JSON201.Id, wait); err != nil {
		return err
	}
	bad, err := c.EnqueueJobWithResponse(ctx, api.NewJob{})
	if err != nil {
		return err
	}
	if bad.ApplicationproblemJSONDefault == nil || bad.ApplicationproblemJSONDefault.Code != "invalid" {
		return refused("a job without a kind", bad.Status(), bad.Body)
	}
	fmt.Printf("job %d completed\n", made.JSON201.Id)
	return nil
}

func finish(ctx context.Context, c *api.ClientWithResponses, lease api.Lease) error {
	outcome := api.Outcome{Lease: lease, Type: "completed", Result: map[string]any{"paid": true}}
	ended, err := c.FinishWithResponse(ctx, api.FinishRequest{Outcomes: &[]api.Outcome{outcome}})
	if err != nil {
		return err
	}
	if ended.JSON200 == nil || len(*ended.JSON200.Outcomes) != 1 || (*ended.JSON200.Outcomes)[0].Status != "applied" {
		return refused("finish", ended.Status(), ended.Body)
	}
	return nil
}

func look(ctx context.Context, c *api.ClientWithResponses, id int64, wait string) error {
	got, err := c.GetJobWithResponse(ctx, id, &api.GetJobParams{Wait: &wait})
	if err != nil {
		return err
	}
	if got.JSON200 == nil || got.JSON200.State != "completed" || fmt.Sprint(got.JSON200.Result) != "map[paid:true]" {
		return refused("get", got.Status(), got.Body)
	}
	states, history := []api.ListJobsParamsState{"completed", "failed"}, id
	list, err := c.ListJobsWithResponse(ctx, &api.ListJobsParams{State: &states})
	if err != nil {
		return err
	}
	if list.JSON200 == nil || len(*list.JSON200.Jobs) != 1 {
		return refused("list", list.Status(), list.Body)
	}
	past, err := c.GetHistoryWithResponse(ctx, history, nil)
	if err != nil {
		return err
	}
	if past.JSON200 == nil || len(*past.JSON200.History) != 1 {
		return refused("history", past.Status(), past.Body)
	}
	queues, err := c.ListQueuesWithResponse(ctx, nil)
	if err != nil {
		return err
	}
	if queues.JSON200 == nil || len(*queues.JSON200.Queues) != 1 {
		return refused("queues", queues.Status(), queues.Body)
	}
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/event"
)

// events does a step about events.
func (d *scenarioDriver) events(ctx context.Context, s scenarioStep) (any, error) {
	calls := event.Of(d.client)
	switch s.How {
	case "follow":
		return calls.Follow(ctx, s.Name, s.Filter.Filter)
	case "unfollow":
		return nil, calls.Unfollow(ctx, s.Name)
	case "list":
		var names []string
		all, err := calls.Followers(ctx)
		for _, f := range all {
			names = append(names, f.Name)
		}
		return names, err
	case "read":
		page, err := calls.Read(ctx, event.Read{Follower: s.Name, Ack: d.next[s.Name]})
		d.next[s.Name] = page.Next
		var got []string
		for _, e := range page.Events {
			got = append(got, changed(e))
		}
		return got, err
	case "tail":
		var want []string
		if err := json.Unmarshal(s.Expect, &want); err != nil {
			return nil, err
		}
		return d.tail(ctx, calls, s.Name, len(want))
	}
	return nil, errors.New("no such call about events")
}

// tail walks through the events of a follower until it has count of them, or for a moment if
// that is 0.
func (d *scenarioDriver) tail(ctx context.Context, calls event.Events, name string, count int) (got []string, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if count == 0 {
		time.AfterFunc(200*time.Millisecond, stop)
	}
	for e, err := range calls.Tail(ctx, name) {
		switch {
		case errors.Is(err, context.Canceled):
			return got, nil
		case err != nil:
			return got, err
		}
		if got = append(got, changed(e)); len(got) == count {
			break
		}
	}
	return got, nil
}

func changed(e event.Event) string {
	from := "-"
	if e.From != sojourn.State(0) {
		from = e.From.String()
	}
	return fmt.Sprintf("%s %s %s", e.Key, from, e.State)
}

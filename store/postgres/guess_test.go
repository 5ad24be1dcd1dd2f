package postgres

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// TestGuessesAreAsked: a transaction that stores a job and starts one guesses what the last ones have found; what another node has changed meanwhile counts
// all the same.
func TestGuessesAreAsked(t *testing.T) {
	priority := int32(7)
	set := func(queue string, q sojourn.QueueSettings) func(*sojourn.Client) error {
		return func(b *sojourn.Client) error { return b.Store().SetQueue(context.Background(), queue, q) }
	}
	other := func(options ...sojourn.Option) func(*sojourn.Client) error {
		return func(b *sojourn.Client) error {
			_, err := b.Enqueue(context.Background(), sojourn.NewJob("k", []byte("other"), options...))
			return err
		}
	}
	for name, c := range map[string]struct {
		change   func(b *sojourn.Client) error
		starts   string // args of the job that starts
		priority int32  // of the job that is stored
	}{
		"nothing":            {func(*sojourn.Client) error { return nil }, "mine", 100},
		"a job before it":    {other(), "other", 100},
		"one that falls due": {other(sojourn.Delay(time.Millisecond)), "other", 100},
		"a pause":            {set("default", sojourn.QueueSettings{Paused: true}), "", 100},
		"a pause of all":     {set(sojourn.AllQueues, sojourn.QueueSettings{Paused: true}), "", 100},
		"a limit of nothing": {set("default", sojourn.QueueSettings{PausedKinds: []string{"k"}}), "", 100},
		"a default":          {set("default", sojourn.QueueSettings{Defaults: sojourn.QueueDefaults{Priority: &priority}}), "mine", priority},
		"a drain": {func(b *sojourn.Client) error {
			return b.Store().(sojourn.WorkerKeeper).DrainWorker(context.Background(), "w")
		}, "", 100},
	} {
		t.Run(name, func(t *testing.T) {
			a, schema := openNamed(t)
			b, err := Open(testURL(t), Schema(schema))
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			claim := func(number int64, atMost int) (args []string) {
				jobs, _ := a.Store().Claim(t.Context(), sojourn.ClaimRequest{Worker: "w", Number: number, Queues: []string{"default"}, Kinds: []string{"k"},
					Max: atMost, Capacity: 9})
				for _, j := range jobs {
					args = append(args, string(j.Job.Args))
				}
				return args
			}
			mine := sojourn.NewJob("k", []byte("mine"))
			for range 2 { // the second finds the queue
				if _, err := a.Enqueue(t.Context(), sojourn.NewJob("k", nil)); err != nil {
					t.Fatal(err)
				}
			}
			if started := claim(1, 9); len(started) != 2 {
				t.Fatal(started)
			}
			if err := c.change(b); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond) // what falls due has
			var started []string
			together(t, a, schema, func() {
				if _, err := a.Enqueue(t.Context(), mine); err != nil {
					t.Error(err)
				}
			}, func() { started = claim(2, 1) })
			if want := slices.DeleteFunc([]string{c.starts}, func(s string) bool { return s == "" }); !slices.Equal(started, want) {
				t.Errorf("%q starts, not %q", started, want)
			}
			if j, err := a.Get(t.Context(), mine.ID); err != nil || j.Priority != c.priority {
				t.Errorf("%+v %v", j, err)
			}
		})
	}
}

// TestGuessedKeys: a key that another node has given away, or that stands twice in a transaction, is found all the same, and so is a repeated call.
func TestGuessedKeys(t *testing.T) {
	a, schema := openNamed(t)
	b, err := Open(testURL(t), Schema(schema))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	enqueue := func(c *sojourn.Client, key string) (*sojourn.Job, sojourn.Enqueued) {
		j := sojourn.NewJob("k", nil, sojourn.Key(key))
		e, err := c.Enqueue(t.Context(), j)
		if err != nil {
			t.Fatal(key, err)
		}
		return j, e
	}
	enqueue(a, "x")
	repeated, _ := enqueue(a, "y")
	_, other := enqueue(b, "z")
	if _, e := enqueue(a, "z"); !e.Duplicate || e.ID != other.ID {
		t.Errorf("a key of another node: %+v", e)
	}
	for range 20 { // until it guesses again
		enqueue(a, time.Now().String())
	}
	if again, err := a.Enqueue(t.Context(), repeated); err != nil || !again.Duplicate || again.ID != repeated.ID {
		t.Errorf("a repeated call: %+v %v", again, err)
	}
	two := []*sojourn.Job{sojourn.NewJob("k", nil, sojourn.Key("w")), sojourn.NewJob("k", nil, sojourn.Key("w"))}
	for range 20 {
		enqueue(a, time.Now().String())
	}
	done, err := a.EnqueueAll(t.Context(), two)
	if err != nil || done[0].Duplicate || !done[1].Duplicate || done[0].ID != done[1].ID {
		t.Errorf("a key that stands twice: %+v %v", done, err)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi"
	"github.com/sojourn-queue/sojourn/worker"
)

// driveFaults is the driver in Go.
func driveFaults(ctx context.Context, in faultInput, done func(faultResult)) error {
	var group sync.WaitGroup
	var mu sync.Mutex // of done
	slots := make(chan struct{}, in.Limit)
	for _, row := range in.Rows {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			r := faultResult{N: row.N}
			d := &faultDriver{url: in.URL + "/r" + strconv.Itoa(row.N), queue: "r" + strconv.Itoa(row.N), call: row.Call}
			if err := d.run(ctx, in, &r); err != nil {
				r.Wrong = err.Error()
			}
			r.Began = int(d.began.Load())
			d.tell(ctx, "/over")
			mu.Lock()
			defer mu.Unlock()
			done(r)
		})
	}
	group.Wait()
	return nil
}

type faultDriver struct {
	url, queue, call string
	began            atomic.Int32
}

// tell calls the proxy itself.
func (d *faultDriver) tell(ctx context.Context, path string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
	if err != nil {
		return
	}
	if got, err := http.DefaultClient.Do(r); err == nil {
		_ = got.Body.Close()
	}
}

// again repeats a call until it succeeds. Its errors must be typed.
func again[T any](ctx context.Context, name string, call func(ctx context.Context) (T, error)) (T, error) {
	for {
		limited, cancel := context.WithTimeout(ctx, 4*time.Second)
		out, err := call(limited)
		cancel()
		if err == nil {
			return out, nil
		}
		if _, typed := errors.AsType[*sojourn.Error](err); !typed && !errors.Is(err, context.DeadlineExceeded) {
			return out, fmt.Errorf("%s: an error without a type: %w", name, err)
		}
		select {
		case <-ctx.Done():
			return out, fmt.Errorf("%s: %w", name, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (d *faultDriver) run(ctx context.Context, in faultInput, r *faultResult) error {
	client, err := httpapi.Dial(d.url, httpapi.Token(in.Token))
	if err != nil {
		return err
	}
	defer client.Close()
	job := sojourn.NewJob("work", nil)
	job.Queue = d.queue
	stored, err := again(ctx, "enqueue", func(ctx context.Context) (sojourn.Enqueued, error) { return client.Enqueue(ctx, job) })
	if err != nil {
		return err
	}
	r.Job = int64(stored.ID)
	w := worker.New(client, worker.Options{Queues: []string{d.queue}, Concurrency: 1, Lease: time.Duration(in.Lease * float64(time.Second)), Grace: 10 * time.Second})
	worker.Handle(w, sojourn.Kind[[]byte]{Name: "work", Codec: sojourn.Bytes}, func(ctx context.Context, j *sojourn.Job, _ []byte) error { return d.work(ctx, j) })
	worker.Handle(w, sojourn.Kind[[]byte]{Name: "probe", Codec: sojourn.Bytes}, func(context.Context, *sojourn.Job, []byte) error { return nil })
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	defer stop()
	if d.call == "respond" {
		answer := &sojourn.Response{Job: stored.ID, MessageID: "m-" + d.queue, Body: []byte(`"row"`), ContentType: "application/json"}
		if _, err := again(ctx, "respond", func(ctx context.Context) (sojourn.Responded, error) { return client.Respond(ctx, answer) }); err != nil {
			return err
		}
	}
	if err := d.completed(ctx, client, stored.ID); err != nil {
		return err
	}
	probe := sojourn.NewJob("probe", nil)
	probe.Queue = d.queue
	stored, err = again(ctx, "enqueue", func(ctx context.Context) (sojourn.Enqueued, error) { return client.Enqueue(ctx, probe) })
	if err == nil {
		err = d.completed(ctx, client, stored.ID)
	}
	if err != nil {
		return fmt.Errorf("the worker does not go on: %w", err)
	}
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the worker ended: %w", err)
	}
	return nil
}

func (d *faultDriver) completed(ctx context.Context, client *sojourn.Client, id sojourn.ID) error {
	_, err := again(ctx, "wait", func(ctx context.Context) (*sojourn.Job, error) { return client.Wait(ctx, id) })
	return err
}

func (d *faultDriver) work(ctx context.Context, j *sojourn.Job) error {
	if d.call == "respond" && j.Response == nil {
		d.began.Add(1)
		return sojourn.Await(time.Minute)
	}
	d.began.Add(1)
	j.Log().Info("begun")
	if _, err := again(ctx, "save", func(ctx context.Context) (any, error) { return nil, j.SaveCheckpoint(ctx, []byte(`"saved"`)) }); err != nil {
		return err
	}
	if d.call == "extend" {
		d.tell(ctx, "/extended")
	}
	return j.SetResult("row")
}

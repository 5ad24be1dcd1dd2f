package ui

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/workers"
)

// workersData is the data of the page of workers.
type workersData struct {
	Workers []shownWorker
	Next    string
}

// shownWorker is a worker with its state.
type shownWorker struct {
	sojourn.WorkerStatus
	State workers.State
}

// Over reports whether the worker gets no more jobs and runs none: it can be removed.
func (w shownWorker) Over() bool { return w.State == workers.Stopped || w.State == workers.Gone }

func workersPage(q *request) (page, error) {
	found, err := q.who.client.Store().Workers(q.ctx, q.get("after"), workersOnPage)
	if err != nil {
		return page{}, err
	}
	var d workersData
	for _, w := range found {
		d.Workers = append(d.Workers, shownWorker{w, workers.StateOf(w, time.Now())})
	}
	if len(found) == workersOnPage {
		d.Next = found[len(found)-1].Worker
	}
	return page{name: "workers", title: "Workers", nav: "workers", live: 2, data: d}, nil
}

func doDrain(q *request) (string, error) {
	return "workers?done=drained", q.who.client.Workers().Drain(q.ctx, q.r.PostForm.Get("worker"))
}

// doForget removes a worker. One that lives stays, and the error says how to end it.
func doForget(q *request) (string, error) {
	_, err := workers.Of(q.who.client).Forget(q.ctx, q.r.PostForm.Get("worker"), workers.Forget{})
	return "workers?done=forgotten", err
}

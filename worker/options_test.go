package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

func nothing(context.Context, *sojourn.Job, args) error { return nil }

// Bad options are told by Run, as an *Error that names the field: spec:W9.
func TestBadOptions(t *testing.T) {
	for field, o := range map[string]Options{
		"concurrency":     {Concurrency: -1},
		"min_concurrency": {Concurrency: 4, MinConcurrency: 5},
		"lease":           {Lease: time.Millisecond},
		"grace":           {Grace: -time.Second},
		"sweep_every":     {SweepEvery: time.Millisecond},
		"respond_url":     {RespondURL: "shop.example"},
		"middleware":      {Middleware: []Middleware{nil}},
		"queues":          {Queues: []string{"a", "a"}},
		"order":           {Order: 7},
		"shares":          {Queues: []string{"a", "b"}, Shares: map[string]int{"a": 1}},
	} {
		w := New(sojourn.NewClient(newFake()), o)
		Handle(w, kindA, nothing)
		err := w.Run(t.Context())
		if e, ok := errors.AsType[*sojourn.Error](err); !ok || e.Code != sojourn.CodeInvalid || e.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
	more := []Options{
		{Concurrency: sojourn.MaxWeight + 1}, {MinConcurrency: -1}, {MinConcurrency: 11}, {Lease: 2 * time.Hour}, {Queues: []string{"no spaces"}},
		{RespondURL: "https://"}, {RespondURL: "ftp://shop.example"}, {RespondURL: "https://shop.example/?a=b"},
		{Shares: map[string]int{"no spaces": 1}}, {Queues: []string{"b"}, Shares: map[string]int{"a": 1}}, {Shares: map[string]int{"default": 0}}, {Order: RoundRobin, Shares: map[string]int{"default": 1}},
	}
	for i, o := range more {
		w := New(sojourn.NewClient(newFake()), o)
		Handle(w, kindA, nothing)
		if _, err := w.RunOnce(t.Context()); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("number %d: got %v", i, err)
		}
	}
}

func TestRunWithoutHandlers(t *testing.T) {
	if err := New(sojourn.NewClient(newFake()), Options{}).Run(t.Context()); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		t.Errorf("got %v", err)
	}
}

type owned struct{ *fake }

func (owned) OwnerID() string { return "owner7" }

// inv:F7, spec:W1: the identity is random with every start; names are labels only.
func TestIdentity(t *testing.T) {
	a, b := New(sojourn.NewClient(newFake()), Options{Name: "x"}), New(sojourn.NewClient(newFake()), Options{Name: "x"})
	if a.ID() == b.ID() || len(a.ID()) < 20 || a.Name() != "x" {
		t.Errorf("ids %q and %q, name %q", a.ID(), b.ID(), a.Name())
	}
	c := New(sojourn.NewClient(owned{newFake()}), Options{})
	if !strings.HasPrefix(c.ID(), "owner7.") || !strings.Contains(c.Name(), "-") {
		t.Errorf("id %q, name %q: want the owner's id and a dot in front, and host-pid", c.ID(), c.Name())
	}
	if err := sojourn.ValidName("worker", c.ID()); err != nil {
		t.Error(err)
	}
}

func TestHandlePanicsOnMistakes(t *testing.T) {
	mistake := func(name, want string, do func(w *Worker)) {
		t.Run(name, func(t *testing.T) {
			w := New(sojourn.NewClient(newFake()), Options{})
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, want) {
					t.Errorf("panic %q, want one with %q", got, want)
				}
			}()
			do(w)
			t.Error("no panic")
		})
	}
	mistake("twice", "the kind a has a handler already", func(w *Worker) {
		Handle(w, kindA, nothing)
		Handle(w, kindA, nothing)
	})
	mistake("nil", "nil handler for the kind a", func(w *Worker) { Handle(w, kindA, nil) })
	mistake("name", "allowed are", func(w *Worker) { Handle(w, sojourn.Kind[args]{Name: "no spaces"}, nothing) })
	mistake("after Run", "has run already", func(w *Worker) {
		Handle(w, kindA, nothing)
		if _, err := w.RunOnce(t.Context()); err != nil {
			t.Error(err)
		}
		Handle(w, sojourn.Kind[args]{Name: "b"}, nothing)
	})
}

package main

import (
	"context"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/sojourntest"
)

// How an application tests its own windows: the clock moves only when the test says so (spec:T1,
// spec:T2).
func TestReportsRunInTheMorningAndTheEvening(t *testing.T) {
	noon := time.Date(2026, 10, 24, 10, 0, 0, 0, time.UTC) // 12:00 in Berlin
	h := sojourntest.New(t, sojourntest.At(noon))
	var ran []time.Duration
	sojourntest.Handle(h, report, func(context.Context, *sojourn.Job, string) error {
		ran = append(ran, h.Now().Sub(noon))
		return nil
	})
	evening, morning := h.Enqueue(report.New("a")), h.Enqueue(report.New("b", sojourn.Delay(11*time.Hour)))
	h.RunUntilIdle()
	h.Advance(10*time.Hour - time.Second)
	h.RunUntilIdle()
	if len(ran) != 0 {
		t.Fatalf("ran outside the windows: %v", ran)
	}
	h.Advance(time.Second)
	h.RunUntilIdle()
	h.Advance(8 * time.Hour) // an hour more than the clock on the wall shows: the night is longer
	h.RunUntilIdle()
	if len(ran) != 2 || ran[0] != 10*time.Hour || ran[1] != 18*time.Hour {
		t.Errorf("ran %v after noon", ran)
	}
	for _, id := range []sojourn.ID{evening, morning} {
		if j := h.Job(id); j.State != sojourn.Completed || j.Attempt != 1 {
			t.Errorf("job %d is %s, attempt %d", id, j.State, j.Attempt)
		}
	}
}

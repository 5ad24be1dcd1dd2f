package sojourntest_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/sojourntest"
)

// recorder stands in for the *testing.T of a test, so that an Example can run. Fatalf panics with
// the text.
type recorder struct {
	testing.TB
	cleanups []func()
}

func (r *recorder) Helper()                        {}
func (r *recorder) Cleanup(f func())               { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, a ...any) { fmt.Printf(format+"\n", a...) }
func (r *recorder) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }
func (r *recorder) Output() io.Writer              { return io.Discard }
func (r *recorder) end() {
	for _, f := range r.cleanups {
		f()
	}
}

func Example() {
	t := &recorder{} // in a test, its *testing.T
	defer t.end()

	type Charge struct{ Order string }
	charge := sojourn.Kind[Charge]{Name: "charge", Key: func(c Charge) string { return c.Order }}
	h := sojourntest.New(t)
	sojourntest.Handle(h, charge, func(_ context.Context, job *sojourn.Job, c Charge) error {
		if job.Response == nil {
			fmt.Println("request for", c.Order)
			return sojourn.Await(6 * time.Hour)
		}
		fmt.Printf("answer: %s\n", job.Response.Body)
		return nil
	})

	id := h.Enqueue(charge.New(Charge{"order-42"}))
	h.RunUntilIdle()
	fmt.Println(h.Job(id).State)

	h.Advance(5 * time.Hour)
	h.Respond(sojourn.Response{Kind: "charge", Key: "order-42", ContentType: "text/plain", Body: []byte("approved")})
	h.RunUntilIdle()
	fmt.Println(h.Job(id).State)
	// Output:
	// request for order-42
	// awaiting
	// answer: approved
	// completed
}

// A worker dies after it has sent its request, and the answer comes before anybody has noticed.
func ExampleHarness_Crash() {
	t := &recorder{} // in a test, its *testing.T
	defer t.end()

	charge := sojourn.Kind[string]{Name: "charge", Key: func(order string) string { return order }}
	h := sojourntest.New(t)
	id := h.Enqueue(charge.New("order-42"))
	h.Crash("charge")
	fmt.Println(h.Respond(sojourn.Response{Kind: "charge", Key: "order-42", ContentType: "text/plain", Body: []byte("approved")}).Outcome)

	h.Advance(sojourn.DefaultLease)
	sojourntest.Handle(h, charge, func(_ context.Context, job *sojourn.Job, order string) error {
		fmt.Printf("attempt %d has the answer: %s\n", job.Attempt, job.Response.Body)
		return nil
	})
	h.RunUntilIdle()
	fmt.Println(h.Job(id).State)
	// Output:
	// early
	// attempt 2 has the answer: approved
	// completed
}

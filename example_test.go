package sojourn_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// Charge is what a charge_card job is about.
type Charge struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

// ChargeCard is declared once: its name is stored, and its defaults hold for every job that New
// makes.
var ChargeCard = sojourn.Kind[Charge]{
	Name:   "charge_card",
	Queue:  "payments",
	Key:    func(c Charge) string { return "order-" + c.Order },
	Policy: sojourn.Policy{MaxAttempts: 3},
}

func ExampleKind_New() {
	job := ChargeCard.New(Charge{Order: "42", Cents: 1999}, sojourn.Priority(10), sojourn.Tags("vip"))
	fmt.Println(job.Kind, job.Queue, job.Key, job.Priority, job.Tags)
	fmt.Println(string(job.Args))
	// Output:
	// charge_card payments order-42 10 [vip]
	// {"order":"42","cents":1999}
}

func ExampleKind_Decode() {
	job := ChargeCard.New(Charge{Order: "42", Cents: 1999})
	charge, err := ChargeCard.Decode(job)
	fmt.Println(charge.Order, charge.Cents, err)
	// Output: 42 1999 <nil>
}

func ExampleNewJob() {
	job := sojourn.NewJob("send_mail", []byte(`{"to":"ann@example.com"}`), sojourn.Key("mail-7"), sojourn.Delay(time.Hour))
	fmt.Println(job.Kind, job.Queue, job.Key, job.Priority, job.Weight, job.Delay)
	// Output: send_mail default mail-7 100 1 1h0m0s
}

// What a handler returns says what becomes of its job.
// A program declares its queue at every start. What an operator has set meanwhile stays in force.
func ExampleClient_DeclareQueue() {
	ctx := context.Background()
	client, err := sqlite.Open(":memory:")
	if err != nil {
		panic(err)
	}
	defer client.Close()
	deploy := func(limit int64) {
		q, err := client.DeclareQueue(ctx, "exports", sojourn.QueueSettings{Limit: limit, GroupLimit: 2})
		if err != nil {
			panic(err)
		}
		fmt.Println("limit", q.Settings.Limit, "declared", q.Declared.Limit, "set by operators", q.Overrides.Fields())
	}
	deploy(50)
	if _, err := client.Queues().Update(ctx, "exports", sojourn.QueuePatch{Limit: new(int64(5))}); err != nil {
		panic(err)
	}
	deploy(60)
	if _, err := client.Queues().Update(ctx, "exports", sojourn.QueuePatch{Reset: []string{"limit"}}); err != nil {
		panic(err)
	}
	deploy(60)
	// Output:
	// limit 50 declared 50 set by operators []
	// limit 5 declared 60 set by operators [limit]
	// limit 60 declared 60 set by operators []
}

func ExampleOutcomeOf() {
	for _, err := range []error{
		nil,
		errors.New("connection refused by 10.0.0.7"),
		sojourn.WithReason("gateway_down", errors.New("connection refused by 10.0.0.7")),
		sojourn.Await(6 * time.Hour),
		sojourn.Snooze(time.Minute),
		fmt.Errorf("order 42: %w", sojourn.Abort(errors.New("card declined"))),
	} {
		o := sojourn.OutcomeOf(err)
		fmt.Printf("%s, %q\n", o.Type, o.Reason)
	}
	// Output:
	// completed, ""
	// error, "connection refused by #.#.#.#"
	// error, "gateway_down"
	// await, ""
	// snooze, ""
	// abort, "order #: card declined"
}

// Without a verdict of the kind's own, the stored backoff says when the next attempt runs.
func ExampleBackoff_Delay() {
	b := sojourn.Backoff{First: time.Second, Factor: 3, Limit: time.Minute, Jitter: -1}
	for n := int32(1); n <= 6; n++ {
		fmt.Print(b.Delay(42, n), " ")
	}
	// Output: 1s 3s 9s 27s 1m0s 1m0s
}

// Decide is the whole life of a job as a function: what an event does to its row.
func ExampleDecide() {
	row := rules.Row{ID: 42, State: sojourn.Ready, Weight: 1, Policy: sojourn.Policy{MaxAttempts: 3, MaxCrashes: 3}}
	show := func(e rules.Event) {
		t, err := rules.Decide(row, e)
		if err != nil {
			fmt.Println(err)
			return
		}
		row = t.To
		fmt.Println(t.Rule, row.State, "attempt", row.Attempt, "holds", row.Held)
	}
	show(rules.Event{Type: rules.EventClaimed})
	show(rules.Event{Type: rules.EventFinished, Outcome: &sojourn.Outcome{Type: sojourn.OutcomeAwait}})
	m := rules.Match(row, "order-42", []rules.KeptResponse{{Seq: 1, Key: "order-42"}})
	row = m.Transition.To
	fmt.Println(m.Transition.Rule, row.State, "resumed", row.Resumed, "holds", row.Held)
	show(rules.Event{Type: rules.EventClaimed})
	show(rules.Event{Type: rules.EventFinished, Outcome: &sojourn.Outcome{Type: sojourn.OutcomeCompleted}})
	// Output:
	// C1 running attempt 1 holds 1
	// F5 awaiting attempt 1 holds 1
	// M1 ready resumed true holds 1
	// C3 running attempt 1 holds 1
	// F1 completed attempt 1 holds 0
}

func ExampleParseCapability() {
	secret := []byte("kept by the store")
	token := access.NewCapability(secret, 42, 1, 2, 0)
	c, err := access.ParseCapability(secret, token)
	fmt.Println(c.Job, c.Generation, c.Attempt, c.Wait, err)
	_, err = access.ParseCapability(secret, "43"+token[2:])
	fmt.Println(sojourn.ErrorCode(err))
	// Output:
	// 42 1 2 0 <nil>
	// invalid
}

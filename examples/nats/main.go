// A job that sends a request over NATS and waits for the answer, which comes over a stream. It
// needs a server with JetStream:
//
//	nats-server -js &
//	go run ./examples/nats
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
	natssource "github.com/sojourn-queue/sojourn/source/nats"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/throttle/rule"
	"github.com/sojourn-queue/sojourn/worker"
)

// Charge holds the arguments of a charge_card job.
type Charge struct{ Amount int }

var chargeCard = sojourn.Kind[Charge]{Name: "charge_card"}

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	url := cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL)
	conn, js := bank(ctx, url)
	defer conn.Close()

	client, err := sqlite.Open(":memory:")
	check(err)
	defer client.Close()

	// The answers: a message of the stream REPLIES becomes the response to the job with its order
	// as key.
	broker, err := natssource.Open(natssource.Options{URL: url, Stream: "REPLIES", Durable: "shop"})
	check(err)
	match, err := rule.Matcher(rule.Match{Kind: `"charge_card"`, Key: `body.order`, ID: `headers["event-id"]`})
	check(err)
	answers, err := source.New(client, broker, source.Options{Name: "bank", Match: match})
	check(err)
	running.Go(func() { check(answers.Run(ctx)) })

	w := worker.New(client, worker.Options{})
	worker.Handle(w, chargeCard, func(ctx context.Context, job *sojourn.Job, c Charge) error {
		if job.Response == nil {
			fmt.Println("asking the bank to charge", job.Key)
			if _, err := js.Publish(ctx, "requests", []byte(job.Key)); err != nil {
				return err
			}
			return sojourn.Await(0)
		}
		return job.SetResult(job.Response.Body)
	})
	running.Go(func() { check(w.Run(ctx)) })

	e, err := client.Enqueue(ctx, chargeCard.New(Charge{1999}, sojourn.Key("order-42")))
	check(err)
	done, err := client.Wait(ctx, e.ID)
	check(err)
	fmt.Printf("%s is %s after attempt %d: %s\n", done.Key, done.State, done.Attempt, done.Result)
	cancel()
	running.Wait()
}

// bank is the other side: it answers each request, and says everything twice.
func bank(ctx context.Context, url string) (*nats.Conn, jetstream.JetStream) {
	conn, err := nats.Connect(url)
	check(err)
	js, err := jetstream.New(conn)
	check(err)
	for stream, subject := range map[string]string{"REQUESTS": "requests", "REPLIES": "replies"} {
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{subject}})
		check(err)
	}
	requests, err := js.CreateOrUpdateConsumer(ctx, "REQUESTS", jetstream.ConsumerConfig{Durable: "bank"})
	check(err)
	_, err = requests.Consume(func(m jetstream.Msg) {
		for range 2 {
			reply := &nats.Msg{Subject: "replies", Header: nats.Header{"event-id": {"evt-" + string(m.Data())}}, Data: fmt.Appendf(nil, `{"order":%q,"approved":true}`, m.Data())}
			if _, err := js.PublishMsg(ctx, reply); ctx.Err() == nil { // the end may come between the two
				check(err)
			}
		}
		m.Ack()
	})
	check(err)
	return conn, js
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

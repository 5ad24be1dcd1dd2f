// A job that sends a request over RabbitMQ and waits for the answer, which comes into another queue
// with the job's key as correlation id:
//
//	RABBITMQ_URL=amqp://guest:guest@127.0.0.1:5672/ go run ./examples/rabbitmq
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/source/rabbitmq"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

// Charge holds the arguments of a charge_card job.
type Charge struct{ Amount int }

var chargeCard = sojourn.Kind[Charge]{Name: "charge_card"}

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	url := cmp.Or(os.Getenv("RABBITMQ_URL"), rabbitmq.DefaultURL)
	conn, requests := bank(url)
	defer conn.Close()

	client, err := sqlite.Open(":memory:")
	check(err)
	defer client.Close()

	// The answers: a matcher in Go takes the key out of the correlation id.
	broker, err := rabbitmq.Open(rabbitmq.Options{URL: url, Queue: "replies"})
	check(err)
	match := func(_ context.Context, m *source.Message) (*sojourn.Response, error) {
		return &sojourn.Response{Kind: chargeCard.Name, Key: m.Key}, nil
	}
	answers, err := source.New(client, broker, source.Options{Name: "bank", Match: match})
	check(err)
	running.Go(func() { check(answers.Run(ctx)) })

	w := worker.New(client, worker.Options{})
	worker.Handle(w, chargeCard, func(ctx context.Context, job *sojourn.Job, c Charge) error {
		if job.Response == nil {
			fmt.Println("asking the bank to charge", job.Key)
			if err := requests.PublishWithContext(ctx, "", "requests", true, false, amqp.Publishing{CorrelationId: job.Key, DeliveryMode: amqp.Persistent}); err != nil {
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

// bank is the other side: it answers each request, and says everything twice. It returns a channel
// for requests.
func bank(url string) (*amqp.Connection, *amqp.Channel) {
	conn, err := amqp.Dial(url)
	check(err)
	var channels [2]*amqp.Channel
	for i, queue := range []string{"requests", "replies"} {
		channels[i], err = conn.Channel()
		check(err)
		_, err = channels[i].QueueDeclare(queue, true, false, false, false, nil)
		check(err)
	}
	incoming, err := channels[1].Consume("requests", "bank", false, false, false, false, nil)
	check(err)
	go func() {
		for d := range incoming {
			for range 2 {
				reply := amqp.Publishing{CorrelationId: d.CorrelationId, MessageId: "evt-" + d.CorrelationId, DeliveryMode: amqp.Persistent, Body: []byte(`{"approved":true}`)}
				check(channels[1].Publish("", "replies", true, false, reply))
			}
			check(d.Ack(false))
		}
	}()
	return conn, channels[0]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A job that sends a request over Kafka and waits for the answer, which comes over another topic.
// It needs a cluster that makes topics by itself:
//
//	KAFKA_BROKER=127.0.0.1:9092 go run ./examples/kafka
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/source/kafka"
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
	address := cmp.Or(os.Getenv("KAFKA_BROKER"), kafka.DefaultBroker)
	producer, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.AllowAutoTopicCreation())
	check(err)
	defer producer.Close()
	go bank(ctx, address)

	client, err := sqlite.Open(":memory:")
	check(err)
	defer client.Close()

	// The answers: a record of the topic replies becomes the response to the job that its key
	// names.
	check(producer.ProduceSync(ctx, &kgo.Record{Topic: "replies", Key: []byte("hello"), Value: []byte(`{"noise":true}`)}).FirstErr())
	broker, err := kafka.Open(kafka.Options{Brokers: []string{address}, Topics: []string{"replies"}, Group: "shop"})
	check(err)
	match, err := rule.Matcher(rule.Match{When: `!has(body.noise)`, Kind: `"charge_card"`, Key: `key`, ID: `headers["event-id"]`})
	check(err)
	answers, err := source.New(client, broker, source.Options{Name: "bank", Match: match})
	check(err)
	running.Go(func() { check(answers.Run(ctx)) })

	w := worker.New(client, worker.Options{})
	worker.Handle(w, chargeCard, func(ctx context.Context, job *sojourn.Job, c Charge) error {
		if job.Response == nil {
			fmt.Println("asking the bank to charge", job.Key)
			if err := producer.ProduceSync(ctx, &kgo.Record{Topic: "requests", Key: []byte(job.Key)}).FirstErr(); err != nil {
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
func bank(ctx context.Context, address string) {
	c, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics("requests"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AllowAutoTopicCreation())
	check(err)
	defer c.Close()
	for ctx.Err() == nil {
		c.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			id := kgo.RecordHeader{Key: "event-id", Value: append([]byte("evt-"), r.Key...)}
			for range 2 {
				c.Produce(ctx, &kgo.Record{Topic: "replies", Key: r.Key, Value: []byte(`{"approved":true}`), Headers: []kgo.RecordHeader{id}}, nil)
			}
		})
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Jobs are found by values of their JSON: the queue declares the paths, filters name the values.
//
//	go run ./examples/search
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/filter"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

type charge struct {
	Customer int     `json:"customer"`
	Amount   float64 `json:"amount"`
}

var charges = sojourn.Kind[charge]{Name: "charge", Queue: "payments"}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client, err := sqlite.Open(":memory:")
	if err != nil {
		return err
	}
	defer client.Close()

	if _, err := client.DeclareQueue(ctx, "payments", sojourn.QueueSettings{Index: []string{"args.customer", "meta.shop"}}); err != nil {
		return err
	}
	for i, shop := range []string{"north", "south", "north"} {
		if _, err := client.Enqueue(ctx, charges.New(charge{Customer: 42 + i%2, Amount: 9.5}, sojourn.Meta("shop", shop))); err != nil {
			return err
		}
	}

	for _, text := range []string{"args.customer:42", "args.customer:43", "kind:charge args.customer:42 meta.shop:north", "args.amount:9.5"} {
		f, err := filter.Parse(text, time.Now())
		if err != nil {
			return err
		}
		page, err := client.Jobs().List(ctx, f)
		if err != nil {
			fmt.Println(err) // no queue indexes the path
			continue
		}
		fmt.Printf("%s: %d jobs\n", text, len(page.Items))
	}
	return nil
}

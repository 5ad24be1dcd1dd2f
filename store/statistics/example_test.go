package statistics_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/store/statistics"
)

func ExampleStatistics_Rows() {
	client, err := sqlite.Open(":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	if _, err := client.EnqueueAll(ctx, sojourn.NewJob("mail", nil), sojourn.NewJob("mail", nil), sojourn.NewJob("invoice", nil)); err != nil {
		log.Fatal(err)
	}
	rows, err := statistics.Of(client).Rows(ctx, statistics.Query{Days: 7, By: []statistics.Dimension{statistics.ByKind}})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range rows {
		fmt.Println(r.Kind, r.Enqueued, r.Completed, statistics.Duration(r.Run.P99))
	}
	// Output:
	// invoice 1 0 0s
	// mail 2 0 0s
}

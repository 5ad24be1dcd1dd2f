package sqlite

import (
	"context"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// spec:T4: a blocked claim is woken when the windows of its queue open, without an enqueue and
// without a due job. Here the clock is the real one, and the opening two seconds ahead.
func TestOpeningWakesABlockedClaim(t *testing.T) {
	c, err := Open(fileTest(t), Relaxed())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	opens := time.Now().UTC().Truncate(time.Second).Add(3 * time.Second)
	window := sojourn.Window{Start: opens.Format(time.TimeOnly), End: opens.Add(time.Hour).Format(time.TimeOnly)}
	if err := c.Queues().Set(ctx, "night", sojourn.QueueSettings{Windows: sojourn.Windows{window}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Queue("night"))); err != nil {
		t.Fatal(err)
	}
	jobs, err := driver.Of(c).Claim(ctx, driver.ClaimRequest{Worker: "w", Number: 1, Queues: []string{"night"}, Kinds: []string{"k"}, Max: 1, Capacity: 1, Wait: sojourn.MaxWait})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	if early := time.Until(opens); early > 0 {
		t.Errorf("claimed %v before the opening", early)
	}
}

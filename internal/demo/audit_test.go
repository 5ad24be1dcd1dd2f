package demo

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// twoEnds is a store whose histories end twice.
type twoEnds struct{ driver.Store }

func (s twoEnds) History(ctx context.Context, id sojourn.ID, after int32, limit int) ([]sojourn.HistoryEntry, error) {
	h, err := s.Store.History(ctx, id, after, limit)
	return append(h, h...), err
}

// TestAuditFindsWhatIsPlanted: one breach at a time.
func TestAuditFindsWhatIsPlanted(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name  string
		plant func(t *testing.T, c *sojourn.Client, l *ledger) *sojourn.Client
		ok    bool
		lost  int
		says  string
	}{
		{"nothing", func(t *testing.T, c *sojourn.Client, l *ledger) *sojourn.Client { return c }, true, 0, ""},
		{"a job of a visitor", func(t *testing.T, c *sojourn.Client, l *ledger) *sojourn.Client {
			if _, err := c.Enqueue(ctx, chargeCard.New(charged{Order: "mine"})); err != nil {
				t.Fatal(err)
			}
			return c
		}, true, 0, ""},
		{"a job that is not there", func(t *testing.T, c *sojourn.Client, l *ledger) *sojourn.Client {
			note(t, l, entry{Order: 9, Job: 999_999})
			return c
		}, false, 1, "job 999999 is acknowledged and not in the store"},
		{"a job that nobody acknowledged", func(t *testing.T, c *sojourn.Client, l *ledger) *sojourn.Client {
			if _, err := c.Enqueue(ctx, chargeCard.New(charged{Order: "extra"}, sojourn.Tags(tag))); err != nil {
				t.Fatal(err)
			}
			return c
		}, false, 0, "was never acknowledged"},
		{"an answer that is not there", func(t *testing.T, c *sojourn.Client, l *ledger) *sojourn.Client {
			note(t, l, entry{Answer: "evt_9", Outcome: sojourn.Applied})
			return c
		}, false, 1, "answer evt_9 is acknowledged and stands 0 times in the inbox"},
		{"an answer of another source", func(t *testing.T, c *sojourn.Client, l *ledger) *sojourn.Client {
			r := &sojourn.Response{Kind: chargeCard.Name, Key: "order-1", Source: "elsewhere", MessageID: "evt_9"}
			if _, err := c.Respond(ctx, r); err != nil {
				t.Fatal(err)
			}
			note(t, l, entry{Answer: "evt_9", Outcome: sojourn.Early})
			return c
		}, false, 1, "stands 0 times"},
		{"a history with two ends", func(t *testing.T, c *sojourn.Client, l *ledger) *sojourn.Client {
			return sojourn.NewClient(twoEnds{driver.Of(c)})
		}, false, 1, "its history has 2 ends"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "demo.db")
			client, l := open(t, path), ledgerAt(t, path+".ledger")
			for n := 1; n <= 2; n++ {
				e, err := client.Enqueue(ctx, chargeCard.New(charged{Order: orderName(n)}, sojourn.Tags(tag)))
				if err != nil {
					t.Fatal(err)
				}
				note(t, l, entry{Order: n, Job: e.ID})
			}
			if err := client.As("test").Cancel(ctx, l.sorted()[0], ""); err != nil {
				t.Fatal(err)
			}
			if _, err := client.Respond(ctx, response("evt_1", webhook{Order: orderName(2)}, nil)); err != nil {
				t.Fatal(err)
			}
			note(t, l, entry{Answer: "evt_1", Outcome: sojourn.Early})

			r, err := audit(ctx, c.plant(t, client, l), l)
			if err != nil {
				t.Fatal(err)
			}
			if r.OK() != c.ok || r.Lost != c.lost || !strings.Contains(strings.Join(r.Problems, "\n"), c.says) {
				t.Errorf("ok %v, %d lost, problems %q", r.OK(), r.Lost, r.Problems)
			}
		})
	}
}

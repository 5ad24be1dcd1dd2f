package worker

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// idSource hands out the ids of the jobs that outcomes store, from a block that the store has
// leased. Only the reporter's goroutine uses it.
type idSource struct {
	at, limit sojourn.ID
	leased    time.Time
}

const (
	idBlock    = 100    // ids that are leased at a time, at least
	idBlockMax = 10_000 // the maximum of Store.IDs
)

// fill gives ids to the jobs of outcomes that have none. An outcome keeps them when its report is
// repeated, so that the store knows its jobs again.
func (b *idSource) fill(ctx context.Context, store sojourn.Store, batch []*step) error {
	missing := 0
	for _, s := range batch {
		for i := range s.out.Next {
			if s.out.Next[i].ID == 0 {
				missing++
			}
		}
	}
	for _, s := range batch {
		for i := range s.out.Next {
			if s.out.Next[i].ID != 0 {
				continue
			}
			if b.at == b.limit || time.Since(b.leased) > sojourn.IDLife/2 {
				n := min(max(missing, idBlock), idBlockMax)
				first, err := store.IDs(ctx, n)
				if err != nil {
					return err
				}
				b.at, b.limit, b.leased = first, first+sojourn.ID(n), time.Now()
			}
			s.out.Next[i].ID = b.at
			b.at, missing = b.at+1, missing-1
		}
	}
	return nil
}

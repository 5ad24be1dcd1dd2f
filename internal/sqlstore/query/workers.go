package query

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/presence"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/storeconfig"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qWorkers     = `select worker, asks, seen_us, drained from sj_worker where seen_us > $1`
	qWorkersRun  = `select worker, count(*), sum(case when lease_until_us <= $1 then 1 else 0 end), max(lease_until_us - lease_us) from sj_live where state = 4 group by worker`
	qRunningJobs = `select worker, id from sj_live where state = 4 and worker in (texts($1)) order by id limit $2`
)

// Workers lists workers; see sojourn.Store.
func (s *Reader) Workers(ctx context.Context, after string, limit int, ids ...string) (out []sojourn.WorkerStatus, err error) {
	if err := sojourn.ValidLimit(limit); err != nil {
		return nil, err
	}
	err = s.core.View(ctx, func(t *txn.Tx) (err error) {
		out, err = ListWorkers(t, after, cmp.Or(limit, 100), ids)
		return err
	})
	return out, err
}

// ListWorkers is Reader.Workers within a transaction: of ids alone, if the list is not nil. A
// worker is listed for the setting worker_life after its last claim, and as long as it has leases.
// One that has left is listed only while it has leases, as a drained one, or waits in a claim.
func ListWorkers(t *txn.Tx, after string, limit int, ids []string) ([]sojourn.WorkerStatus, error) {
	left := map[string]bool{}
	life, err := storeconfig.WorkerLife(t)
	if err != nil {
		return nil, err
	}
	known := map[string]*sojourn.WorkerStatus{}
	worker := func(id string) *sojourn.WorkerStatus {
		if known[id] == nil {
			known[id] = &sojourn.WorkerStatus{Worker: id, Queues: []string{}, Kinds: []string{}, Life: life}
		}
		return known[id]
	}
	since := t.Now - life.Microseconds()
	if err := t.Read(qWorkers, func(r sqldb.Row) error {
		var a presence.Subscription
		w := worker(r.Text(0))
		err := json.Unmarshal([]byte(r.Text(1)), &a)
		w.SeenAt, w.Drained, left[w.Worker] = jobrow.Time(r.Int(2)), r.Int(3) != 0 || a.Left, a.Left
		note(w, a)
		return err
	}, since); err != nil {
		return nil, err
	}
	if err := t.Read(qWorkersRun, func(r sqldb.Row) error {
		w := worker(r.Text(0))
		w.Running, w.Stalled = r.Int(1), r.Int(2)
		if seen := jobrow.Time(r.Int(3)); seen.After(w.SeenAt) {
			w.SeenAt = seen
		}
		return nil
	}, t.Now); err != nil {
		return nil, err
	}
	for id, p := range t.Core.Workers.All(since) {
		if known[id] == nil && p.Waiting == 0 {
			continue // another process has removed it
		}
		w := worker(id)
		note(w, p.Subscription)
		w.Waiting = p.Waiting > 0
		if seen := jobrow.Time(p.Seen); seen.After(w.SeenAt) {
			w.SeenAt = seen
		}
	}
	maps.DeleteFunc(known, func(id string, w *sojourn.WorkerStatus) bool { return left[id] && w.Running == 0 && !w.Waiting })
	return page(t, known, after, limit, ids)
}

// note adds the name, queues and kinds that a worker claims.
func note(w *sojourn.WorkerStatus, a presence.Subscription) {
	if a.Name != "" {
		w.Name = a.Name
	}
	w.Queues, w.Kinds = append([]string{}, presence.Union(w.Queues, a.Queues)...), append([]string{}, presence.Union(w.Kinds, a.Kinds)...)
}

// page returns the workers of one page, with their jobs if ids were given.
func page(t *txn.Tx, known map[string]*sojourn.WorkerStatus, after string, limit int, only []string) ([]sojourn.WorkerStatus, error) {
	var out []sojourn.WorkerStatus
	for _, id := range slices.Sorted(maps.Keys(known)) {
		probes := slices.Equal(known[id].Queues, []string{sojourn.ProbeQueue})
		if !probes && id > after && (only == nil || slices.Contains(only, id)) && len(out) < limit {
			out = append(out, *known[id])
		}
	}
	if only == nil || len(out) == 0 {
		return out, nil
	}
	place := make(map[string]int, len(out))
	var ids sqldb.Texts
	for i, w := range out {
		place[w.Worker], ids = i, append(ids, w.Worker)
	}
	return out, t.Read(qRunningJobs, func(r sqldb.Row) error {
		w := &out[place[r.Text(0)]]
		w.Jobs = append(w.Jobs, sojourn.ID(r.Int(1)))
		return nil
	}, ids, sojourn.MaxFind)
}

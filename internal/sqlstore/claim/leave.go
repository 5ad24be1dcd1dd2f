package claim

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/presence"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qSubscription = `select w.asks from sj_worker w where w.worker = $1 /*lock w*/`
	qLeave        = `update sj_worker set asks = $2 where worker = $1`
)

// LeaveWorker takes a worker off the list; see workers.Leaver. Its row stays, because it has the
// number of its last claim: a claim that was sent before it and arrives after it takes no jobs.
// Retention deletes the row like that of any worker that is silent.
func (s *Claimer) LeaveWorker(ctx context.Context, worker string) error {
	if err := sojourn.ValidName("worker", worker); err != nil {
		return err
	}
	if c := access.CallerOf(ctx); c != nil && !strings.HasPrefix(worker, c.Token+"/") {
		return &sojourn.Error{Code: access.CodeScope, Index: -1, Message: "the worker claims with another token; its own worker takes it off the list"}
	}
	if _, err := txn.Do(ctx, s.core, leaveOp, 1, worker); err != nil {
		return err
	}
	s.subscriptions.Delete(worker) // its next claim registers it again
	s.core.Workers.Forget(worker)
	return nil
}

var leaveOp = txn.EachOp("leave", groupcommit.Finish, func(t *txn.Tx, worker string) (struct{}, error) {
	text := ""
	if err := t.Read(qSubscription, func(r sqldb.Row) error { text = r.Text(0); return nil }, worker); err != nil || text == "" {
		return struct{}{}, err
	}
	var was presence.Subscription
	if err := json.Unmarshal([]byte(text), &was); err != nil || was.Left {
		return struct{}{}, err
	}
	left, err := jobrow.JSONText(presence.Subscription{Name: was.Name, Queues: []string{}, Kinds: []string{}, Left: true})
	if err == nil {
		_, err = t.Write(qLeave, worker, left)
	}
	return struct{}{}, err
})

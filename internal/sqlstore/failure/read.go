package failure

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/errordetail"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/store/failure"
)

const (
	groupColumns = `id, attempts, failed, first_us, last_us, sample_job, muted_us, muted_until_us, other, queue, kind, reason, pattern, sample, muted_by, mute_reason`
	qOne         = `select ` + groupColumns + ` from sj_failure where id = $1`
	qLockOne     = `select ` + groupColumns + ` from sj_failure f where id = $1 /*lock f*/`
	// The cursor is two conditions, because a comparison of rows uses no index on SQLite.
	qPage = `select ` + groupColumns + ` from sj_failure where last_us <= $1 and (last_us < $1 or id < $2)`
	qOpen = `select count(*) from (select 1 from sj_final where failure = $1 and failure <> 0 limit $2) a`
	// qRetrying counts the live jobs whose last ended step has failed with this cause.
	qRetrying = `select count(*) from sj_history h join sj_live l on l.id = h.job and l.history = h.seq where h.failure = $1 and h.failure <> 0`
	qMute     = `update sj_failure set muted_us = $1, muted_until_us = $2, muted_by = $3, mute_reason = $4 where id = $5`
)

func scan(r sqldb.Row, now int64) failure.Group {
	g := failure.Group{ID: ID(r.Int(0)), Attempts: r.Int(1), Failed: r.Int(2), FirstAt: jobrow.Time(r.Int(3)), LastAt: jobrow.Time(r.Int(4)), Job: sojourn.ID(r.Int(5)),
		Other: r.Int(8) != 0, Queue: r.Text(9), Kind: r.Text(10), Reason: r.Text(11), Pattern: r.Text(12), Error: string(r.Bytes(13))}
	if g.Other {
		g.Pattern = ""
	}
	if until := r.Int(7); r.Int(6) > 0 && until > now {
		g.Muted, g.MutedBy, g.MuteReason = true, r.Text(14), r.Text(15)
		if until < math.MaxInt64 {
			g.MutedUntil = jobrow.Time(until)
		}
	}
	return g
}

// ID is the id of a group for callers.
func ID(id int64) string { return fmt.Sprintf("%016x", id) }

// Failures lists groups; see failure.Store.
func (s *Groups) Failures(ctx context.Context, q failure.Query) (out []failure.Group, err error) {
	if err := sojourn.ValidLimit(q.Limit); err != nil {
		return nil, err
	}
	at, id, err := parseCursor(q.After)
	if err != nil {
		return nil, err
	}
	one := int64(0)
	if q.ID != "" {
		if one, err = failure.ParseID(q.ID); err != nil {
			return nil, err
		}
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	if err := s.foldNow(ctx); err != nil {
		return nil, err
	}
	c := access.CallerOf(ctx)
	err = s.core.View(ctx, func(t *txn.Tx) (err error) {
		if out = nil; one == 0 {
			out, err = page(t, c, q, at, id)
			return err
		}
		g, err := counted(t, c, one, access.VerbRead)
		out = []failure.Group{g}
		return err
	})
	return out, err
}

// parseCursor reads failure.Group.Cursor.
func parseCursor(after string) (at, id int64, err error) {
	if after == "" {
		return math.MaxInt64, math.MaxInt64, nil
	}
	us, group, ok := strings.Cut(after, "-")
	at, wrong := strconv.ParseInt(us, 10, 64)
	id, bad := failure.ParseID(group)
	if !ok || wrong != nil || bad != nil {
		return 0, 0, sojourn.Invalid("after", "%.64q is not a cursor: pass the cursor of the last group of the page before", after)
	}
	return at, id, nil
}

// get reads one group. One that the caller may not read does not exist for it.
func get(t *txn.Tx, c *access.Caller, query string, id int64, verb access.Verb) (g failure.Group, err error) {
	found := false
	if err := t.Read(query, func(r sqldb.Row) error { g, found = scan(r, t.Now), true; return nil }, id); err != nil {
		return g, err
	}
	if !found || !c.Allows(access.VerbRead, g.Queue, g.Kind) && !c.Allows(verb, g.Queue, g.Kind) {
		return g, sojourn.NotFound("there is no failure group %s", ID(id))
	}
	if !c.Allows(verb, g.Queue, g.Kind) {
		return g, &sojourn.Error{Code: access.CodeScope, Index: -1, Message: "this token has no grant to " + string(verb) + " in queue " + g.Queue + ", kind " + g.Kind}
	}
	return g, nil
}

// counted reads one group with exact counts of its jobs.
func counted(t *txn.Tx, c *access.Caller, id int64, verb access.Verb) (failure.Group, error) {
	g, err := get(t, c, qOne, id, verb)
	if err == nil {
		g.Retrying, err = t.ReadInt(qRetrying, id)
	}
	if err == nil {
		g.Open, err = t.ReadInt(qOpen, id, int64(math.MaxInt64))
	}
	if err == nil && c.Allows(access.VerbReadArgs, g.Queue, g.Kind) {
		g.ErrorDetail, err = errordetail.OfGroup(t, int64(g.Job), id)
	}
	return g, err
}

// page reads on until the page is full, because a caller may see few of many groups.
func page(t *txn.Tx, c *access.Caller, q failure.Query, at, id int64) (out []failure.Group, err error) {
	for {
		text, args := qPage, []any{at, id}
		for _, cond := range []struct{ column, value string }{{"queue", q.Queue}, {"kind", q.Kind}, {"reason", q.Reason}} {
			if cond.value != "" {
				args = append(args, cond.value)
				text += fmt.Sprintf(" and %s = $%d", cond.column, len(args))
			}
		}
		args = append(args, q.Limit)
		var rows []failure.Group
		if err := t.Read(text+fmt.Sprintf(" order by last_us desc, id desc limit $%d", len(args)), func(r sqldb.Row) error {
			rows = append(rows, scan(r, t.Now))
			at, id = r.Int(4), r.Int(0)
			return nil
		}, args...); err != nil {
			return nil, err
		}
		for _, g := range rows {
			if g.Muted && !q.Muted || !c.Allows(access.VerbRead, g.Queue, g.Kind) {
				continue
			}
			number, err := failure.ParseID(g.ID)
			if err != nil {
				return nil, err
			}
			if g.Open, err = t.ReadInt(qOpen, number, failure.MaxOpen); err != nil {
				return nil, err
			}
			if q.Open && g.Open == 0 {
				continue
			}
			if out = append(out, g); len(out) == q.Limit {
				return out, nil
			}
		}
		if len(rows) < q.Limit {
			return out, nil
		}
	}
}

// muteRequest mutes a group for a caller.
type muteRequest struct {
	id     int64
	mute   failure.Mute
	caller *access.Caller
}

// muted is a group, or the refusal of a call.
type muted struct {
	group failure.Group
	txn.Refusal
}

// MuteFailure mutes a group or ends its mute; see failure.Store.
func (s *Groups) MuteFailure(ctx context.Context, id string, m failure.Mute) (failure.Group, error) {
	number, err := failure.ParseID(id)
	if err != nil {
		return failure.Group{}, err
	}
	if err := m.Validate(); err != nil {
		return failure.Group{}, err
	}
	if err := s.foldNow(ctx); err != nil {
		return failure.Group{}, err
	}
	m.By, m.Reason = sojourn.Cut(m.By, sojourn.MaxReason), sojourn.Cut(m.Reason, sojourn.MaxReason)
	out, err := txn.Do(ctx, s.core, s.muteOp, 1, muteRequest{number, m, access.CallerOf(ctx)})
	if err == nil {
		err = out.Err
	}
	return out.group, err
}

func (s *Groups) mute(t *txn.Tx, r muteRequest) (muted, error) {
	_, err := get(t, r.caller, qLockOne, r.id, access.VerbOperate)
	if sojourn.ErrorCode(err) != "" {
		return muted{Refusal: txn.Refusal{Err: err}}, nil
	}
	if err != nil {
		return muted{}, err
	}
	at, until := t.Now, int64(math.MaxInt64)
	switch {
	case r.mute.Off:
		at, until, r.mute.By, r.mute.Reason = 0, 0, "", ""
	case r.mute.For > 0:
		until = t.Now + r.mute.For.Microseconds()
	}
	if _, err := t.Write(qMute, at, until, r.mute.By, r.mute.Reason, r.id); err != nil {
		return muted{}, err
	}
	g, err := counted(t, r.caller, r.id, access.VerbOperate)
	return muted{group: g}, err
}

// Scope is the queue and the kind of a group that a caller may read. Counts that are not added up
// yet count as well.
func Scope(t *txn.Tx, c *access.Caller, id string) (queue, kind string, err error) {
	number, err := failure.ParseID(id)
	if err != nil {
		return "", "", err
	}
	found := false
	if err := t.Read(qScope, func(r sqldb.Row) error { queue, kind, found = r.Text(0), r.Text(1), true; return nil }, number); err != nil {
		return "", "", err
	}
	if !found || !c.Allows(access.VerbRead, queue, kind) {
		return "", "", sojourn.NotFound("there is no failure group %s", id)
	}
	return queue, kind, nil
}

const qScope = `select queue, kind from sj_failure where id = $1 union select queue, kind from sj_failure_new where id = $1`

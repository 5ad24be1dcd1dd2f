// Package archives keeps archives: which final jobs they are to export, and which they have
// exported; see the public package archive and docs/decisions/073-archive.md. Package upkeep keeps
// retention from jobs that are not exported yet.
package archives

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/upkeep"
	"github.com/sojourn-queue/sojourn/store/archive"
)

const (
	columns = `id, owner, name, queue, kind, completed, failed, cancelled, target, secret, wait_us, created_us, epoch, runner, lease_us, sequence, bytes, scanned_us,
		exported, missed, exported_us`
	qOne    = `select ` + columns + ` from sj_archive where owner = $1 and name = $2`
	qAll    = `select ` + columns + ` from sj_archive where (owner = $1 or $2 = 1) order by owner, name`
	qCount  = `select count(*) from sj_archive where owner = $1`
	qNextID = `select coalesce(max(id), 0) + 1 from sj_archive`
	qInsert = `insert into sj_archive (owner, name, id, queue, kind, completed, failed, cancelled, target, secret, wait_us, created_us)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`
	qDelete = `delete from sj_archive where owner = $1 and name = $2`
	// qLease locks the row: a record under the lease before has either committed, or finds another
	// epoch.
	qLease = `update sj_archive set epoch = epoch + 1, runner = $3, lease_us = $4 where owner = $1 and name = $2 and (runner = $3 or lease_us <= $5)`
)

// Archivist keeps the archives of one store. Safe for concurrent use.
type Archivist struct {
	core     *txn.Core
	upkeep   *upkeep.Maintainer
	addOp    *txn.Op[*row, answer]
	deleteOp *txn.Op[*row, txn.Refusal]
	leaseOp  *txn.Op[*row, answer]
	recordOp *txn.Op[record, txn.Refusal]
}

// New makes the Archivist of a store; m knows the transactions that delete jobs.
func New(c *txn.Core, m *upkeep.Maintainer) *Archivist {
	return &Archivist{core: c, upkeep: m, addOp: txn.EachOp("add an archive", groupcommit.Finish, add), deleteOp: txn.EachOp("remove an archive", groupcommit.Finish, remove),
		leaseOp: txn.EachOp("lease an archive", groupcommit.Finish, lease), recordOp: txn.EachOp("record an archive", groupcommit.Finish, save)}
}

// row is a row of sj_archive.
type row struct {
	id, epoch, created, lease, scanned, exportedAt int64 // microseconds, but for the first two
	owner                                          string
	def                                            archive.Definition
	runner                                         string
	file                                           archive.File
	exported, missed                               int64
}

var finals = []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled}

func scan(r sqldb.Row) *row {
	a := &row{id: r.Int(0), owner: r.Text(1), created: r.Int(11), epoch: r.Int(12), runner: r.Text(13), lease: r.Int(14), file: archive.File{Sequence: r.Int(15), Bytes: r.Int(16)},
		scanned: r.Int(17), exported: r.Int(18), missed: r.Int(19), exportedAt: r.Int(20)}
	a.def = archive.Definition{Name: r.Text(2), Filter: archive.Filter{Queue: r.Text(3), Kind: r.Text(4)}, To: r.Text(8), Secret: r.Text(9), Wait: time.Duration(r.Int(10)) * time.Microsecond}
	for i, s := range finals {
		if r.Int(5+i) > 0 {
			a.def.Filter.States = append(a.def.Filter.States, s)
		}
	}
	if len(a.def.Filter.States) == len(finals) {
		a.def.Filter.States = nil
	}
	return a
}

func read(t *txn.Tx, owner, name string) (a *row, err error) {
	err = t.Read(qOne, func(r sqldb.Row) error { a = scan(r); return nil }, owner, name)
	if err == nil && a == nil {
		err = notFound(name)
	}
	return a, err
}

func notFound(name string) error {
	return sojourn.NotFound("there is no archive %.64q; add it first", name)
}

func (a *row) status() archive.Status {
	return archive.Status{Name: a.def.Name, Owner: a.owner, Filter: a.def.Filter, To: a.def.To, Secret: a.def.Secret, Wait: a.def.Wait, Exported: a.exported, Missed: a.missed,
		File: a.file, Runner: a.runner, LeaseUntil: jobrow.Time(a.lease), ExportedAt: jobrow.Time(a.exportedAt), CreatedAt: jobrow.Time(a.created)}
}

// answer is an archive, or the refusal of a call, which was found before any write.
type answer struct {
	lease archive.Lease
	txn.Refusal
}

// allowed reports whether a caller has a verb on all jobs of a filter.
func allowed(c *access.Caller, f archive.Filter, verb access.Verb) error {
	if c.Allows(verb, f.Queue, f.Kind) {
		return nil
	}
	return &sojourn.Error{Code: access.CodeScope, Index: -1, Message: "this token has no grant of " + string(verb) + " on all jobs of that queue and kind"}
}

// AddArchive makes an archive; see archive.Store.
func (s *Archivist) AddArchive(ctx context.Context, d archive.Definition) (archive.Status, error) {
	if err := d.Validate(); err != nil {
		return archive.Status{}, err
	}
	c := access.CallerOf(ctx)
	for _, verb := range []access.Verb{access.VerbOperate, access.VerbReadArgs} {
		if err := allowed(c, d.Filter, verb); err != nil {
			return archive.Status{}, err
		}
	}
	if d.Wait == 0 {
		d.Wait = archive.DefaultWait
	}
	d.Wait = d.Wait.Truncate(time.Microsecond)
	slices.Sort(d.Filter.States)
	if d.Filter.States = slices.Compact(d.Filter.States); len(d.Filter.States) == len(finals) {
		d.Filter.States = nil
	}
	a, err := txn.Do(ctx, s.core, s.addOp, 1, &row{owner: c.Owner(), def: d})
	if err == nil {
		err = a.Err
	}
	if err != nil {
		return archive.Status{}, err
	}
	ended, err := s.upkeep.WaitForWriters(ctx)
	if err == nil && !ended {
		err = &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Retryable: true,
			Message: "a transaction that has ended or deleted jobs is still open, and may not know the archive: repeat the call"}
	}
	return a.lease.Status, err
}

func add(t *txn.Tx, a *row) (answer, error) {
	var was *row
	if err := t.Read(qOne, func(r sqldb.Row) error { was = scan(r); return nil }, a.owner, a.def.Name); err != nil {
		return answer{}, err
	}
	if was != nil {
		if !same(was.def, a.def) {
			return answer{Refusal: txn.Refusal{Err: sojourn.Conflict("archive %s has another definition; remove it first, or use another name", a.def.Name)}}, nil
		}
		return answer{lease: archive.Lease{Status: was.status()}}, nil
	}
	n, err := t.ReadInt(qCount, a.owner)
	if err != nil {
		return answer{}, err
	}
	if n >= archive.MaxArchives {
		return answer{Refusal: txn.Refusal{Err: sojourn.Conflict("there are %d archives already, as many as there may be; remove one first", n)}}, nil
	}
	id, err := t.ReadInt(qNextID)
	if err != nil {
		return answer{}, err
	}
	fresh := *a // the transaction may run again
	fresh.id, fresh.created = max(id, t.Now), t.Now
	f := a.def.Filter
	_, err = t.Write(qInsert, a.owner, a.def.Name, fresh.id, f.Queue, f.Kind, jobrow.Bit(f.Has(sojourn.Completed)), jobrow.Bit(f.Has(sojourn.Failed)), jobrow.Bit(f.Has(sojourn.Cancelled)),
		a.def.To, a.def.Secret, a.def.Wait.Microseconds(), t.Now) // a unique violation, if another process was first, runs the transaction again
	return answer{lease: archive.Lease{Status: fresh.status()}}, err
}

func same(a, b archive.Definition) bool {
	return a.Filter.Queue == b.Filter.Queue && a.Filter.Kind == b.Filter.Kind && slices.Equal(a.Filter.States, b.Filter.States) && a.To == b.To && a.Secret == b.Secret && a.Wait == b.Wait
}

// RemoveArchive deletes an archive; see archive.Store. Its rows of sj_archived go with their jobs.
func (s *Archivist) RemoveArchive(ctx context.Context, name string) error {
	c := access.CallerOf(ctx)
	a := &row{owner: c.Owner(), def: archive.Definition{Name: name}}
	if i := strings.LastIndexByte(name, '/'); c == nil && i > 0 {
		a.owner, a.def.Name = name[:i], name[i+1:]
	}
	r, err := txn.Do(ctx, s.core, s.deleteOp, 1, a)
	if err == nil {
		err = r.Err
	}
	return err
}

func remove(t *txn.Tx, a *row) (txn.Refusal, error) {
	n, err := t.Write(qDelete, a.owner, a.def.Name)
	if err == nil && n == 0 {
		return txn.Refusal{Err: notFound(a.def.Name)}, nil
	}
	return txn.Refusal{}, err
}

// LeaseArchive gives the archive to a runner; see archive.Store.
func (s *Archivist) LeaseArchive(ctx context.Context, name, runner string, d time.Duration) (archive.Lease, error) {
	if err := sojourn.ValidKey("runner", runner); err != nil {
		return archive.Lease{}, err
	}
	if d < archive.MinLease || d > archive.MaxLease {
		return archive.Lease{}, sojourn.Invalid("lease", "%v is out of range: 1s to 10m", d)
	}
	a, err := txn.Do(ctx, s.core, s.leaseOp, 1, &row{owner: access.CallerOf(ctx).Owner(), def: archive.Definition{Name: name}, runner: runner, lease: d.Microseconds()})
	if err == nil {
		err = a.Err
	}
	return a.lease, err
}

func lease(t *txn.Tx, a *row) (answer, error) {
	n, err := t.Write(qLease, a.owner, a.def.Name, a.runner, t.Now+a.lease, t.Now)
	if err != nil {
		return answer{}, err
	}
	now, err := read(t, a.owner, a.def.Name)
	switch {
	case sojourn.ErrorCode(err) == sojourn.CodeNotFound:
		return answer{Refusal: txn.Refusal{Err: err}}, nil
	case err != nil:
		return answer{}, err
	case n == 0:
		return answer{Refusal: txn.Refusal{Err: sojourn.Conflict("archive %s is exported by %s until %s; end that program, or wait", a.def.Name, now.runner,
			jobrow.Time(now.lease).UTC().Format(time.RFC3339))}}, nil
	}
	return answer{lease: archive.Lease{Status: now.status(), Epoch: now.epoch}}, nil
}

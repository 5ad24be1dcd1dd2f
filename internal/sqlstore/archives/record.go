package archives

import (
	"context"
	"slices"
	"unicode/utf8"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/store/archive"
)

const (
	// qStored locks the jobs that are still stored, so that none of them is deleted before the rows
	// that are written about it. Retention has the same order: jobs, then archives.
	qStored   = `select id from sj_job where id in (ints($1)) order by id /*lock*/`
	qExported = `insert into sj_archived (job, archive, generation) rows($1 bigint, $2 bigint, $3 bigint)
		on conflict (job, archive) do update set generation = excluded.generation where sj_archived.generation < excluded.generation`
	// qSave checks the lease again, which may have ended since it was read.
	qSave = `update sj_archive set sequence = $3, bytes = $4, exported = exported + $5, exported_us = $6, scanned_us = $7, lease_us = $8 where id = $1 and epoch = $2`
	qPage = `insert into sj_archive_job (archive, job, generation, state, finished_us, archived_us, name, queue, kind, key, page)
		select $1, f.id, f.generation, f.state, f.finished_us, $4, $5, f.queue, f.kind, f.key, $6 from sj_final f where f.id = $2 and f.generation = $3
		on conflict (archive, job, generation) do nothing`
)

// record is a call of RecordArchive.
type record struct {
	owner string
	archive.Record
}

// RecordArchive records exported jobs; see archive.Store.
func (s *Archivist) RecordArchive(ctx context.Context, r archive.Record) error {
	if len(r.Jobs) > sojourn.MaxBatch {
		return sojourn.Invalid("jobs", "%d jobs exceed the limit of %d", len(r.Jobs), sojourn.MaxBatch)
	}
	if r.Lease != 0 && (r.Lease < archive.MinLease || r.Lease > archive.MaxLease) {
		return sojourn.Invalid("lease", "%v is out of range: 1s to 10m, or 0 to end it", r.Lease)
	}
	if r.File.Sequence < 0 || r.File.Bytes < 0 {
		return sojourn.Invalid("file", "a number is negative")
	}
	for i, e := range r.Jobs {
		if e.Job < 1 || e.Generation < 1 || len(e.Page) > archive.MaxPage || !utf8.Valid(e.Page) || slices.Contains(e.Page, 0) {
			return sojourn.AtIndex(i, sojourn.Invalid("jobs", "a job has an id, a generation from 1 on, and JSON in UTF-8 of up to 64 MiB"))
		}
	}
	slices.SortFunc(r.Jobs, func(a, b archive.Exported) int { return int(a.Job - b.Job) })
	a, err := txn.DoAlone(ctx, s.core, s.recordOp, record{access.CallerOf(ctx).Owner(), r})
	if err == nil {
		err = a.Err
	}
	return err
}

func save(t *txn.Tx, r record) (txn.Refusal, error) {
	a, err := read(t, r.owner, r.Archive)
	if sojourn.ErrorCode(err) == sojourn.CodeNotFound {
		return txn.Refusal{Err: err}, nil
	}
	if err != nil {
		return txn.Refusal{}, err
	}
	lost := &sojourn.Error{Code: sojourn.CodeLeaseLost, Index: -1, Err: sojourn.ErrLeaseLost, Message: "archive " + r.Archive + " was leased again, and nothing was recorded; lease it before you export more"}
	if a.epoch != r.Epoch {
		return txn.Refusal{Err: lost}, nil
	}
	kind, _, err := a.def.Target()
	if err != nil {
		return txn.Refusal{}, err
	}
	if err := mark(t, a, r.Jobs, kind == archive.ToTable); err != nil {
		return txn.Refusal{}, err
	}
	lease, file, last := int64(0), a.file, a.exportedAt
	if r.Lease > 0 {
		lease = t.Now + r.Lease.Microseconds()
	}
	if r.File != (archive.File{}) {
		file = r.File
	}
	if len(r.Jobs) > 0 {
		last = t.Now
	}
	scanned := a.scanned
	if !r.Through.IsZero() {
		scanned = max(scanned, min(r.Through.UnixMicro(), t.Now))
	}
	n, err := t.Write(qSave, a.id, r.Epoch, file.Sequence, file.Bytes, len(r.Jobs), last, scanned, lease)
	if err == nil && n == 0 {
		err = lost // what was written is rolled back
	}
	return txn.Refusal{}, err
}

// mark writes that the archive has exported jobs. One that is not stored any more leaves no row.
func mark(t *txn.Tx, a *row, jobs []archive.Exported, table bool) error {
	if len(jobs) == 0 {
		return nil
	}
	ids, stored := make(sqldb.Ints, len(jobs)), map[sojourn.ID]bool{}
	for i, e := range jobs {
		ids[i] = int64(e.Job)
	}
	if err := t.Read(qStored, func(r sqldb.Row) error { stored[sojourn.ID(r.Int(0))] = true; return nil }, ids); err != nil {
		return err
	}
	rows := jobrow.NewColumns(len(jobs), 2, 0, 0)
	for i, e := range jobs {
		if !stored[e.Job] || i > 0 && e.Job == jobs[i-1].Job {
			continue
		}
		rows.Row(int64(e.Job)).Ints(a.id, int64(e.Generation))
		if !table {
			continue
		}
		name := a.def.Name
		if a.owner != "" {
			name = a.owner + "/" + name
		}
		if _, err := t.Write(qPage, a.id, int64(e.Job), int64(e.Generation), t.Now, name, string(e.Page)); err != nil {
			return err
		}
	}
	t.AddColumns(qExported, 0, "", rows)
	return nil
}

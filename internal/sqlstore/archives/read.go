package archives

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/checkpointsize"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/errordetail"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobview"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/store/archive"
)

const (
	// qFinal reads final jobs of one queue and state by their end, and whether the archive has
	// exported their generation.
	qFinal = `select f.finished_us, f.id, f.kind, (select count(*) from sj_archived x where x.job = f.id and x.archive = $5 and x.generation = f.generation) from sj_final f
		where f.queue = $1 and f.state = $2 and (f.finished_us, f.id) > ($3, $4) order by f.finished_us, f.id limit $6`
	qQueues = `select name from sj_queue where name >= $1 order by name`
	// qHistories and qInboxes read what belongs to final jobs.
	qHistories = `select ` + jobview.HistoryColumns + `, job from sj_history where job in (ints($1))
		union all select ` + jobview.LastColumns + `, id from sj_final where id in (ints($1)) and outcome <> '' order by job, seq`
	historyJob = 14 // the column of the job
	qInboxes   = `select ` + txn.ResponseColumns + ` from sj_response where job in (ints($1)) and job > 0 order by job, seq desc`
)

const (
	// scanned bounds the final jobs that one read looks at, exported ones and those of other kinds
	// included.
	scanned = 10_000
	// chunk jobs are read in full at a time, until the page has maxBytes.
	chunk    = 50
	maxBytes = 4 << 20
	// overlap is how far before the last pass the next one begins: a job's end can be committed
	// after later ones.
	overlap = time.Minute
)

// place is a position among final jobs: of one queue and state after the other.
type place struct {
	queue string
	state sojourn.State
	end   int64 // microseconds
	id    int64
}

// pass is a walk through the final jobs that an archive has not exported.
type pass struct {
	t     *txn.Tx
	a     *row
	from  int64 // the jobs that ended before are skipped; microseconds
	limit int

	at   place
	seen int
	over bool // all final jobs were looked at
}

// walk passes on unexported jobs until there are limit, or it has looked at scanned jobs.
func (p *pass) walk(each func(at place)) error {
	queues := []string{p.a.def.Filter.Queue}
	if queues[0] == "" {
		queues = nil
		if err := p.t.Read(qQueues, func(r sqldb.Row) error { queues = append(queues, r.Text(0)); return nil }, p.at.queue); err != nil {
			return err
		}
	}
	found := 0
	for _, queue := range queues {
		for _, state := range finals {
			if !p.a.def.Filter.Has(state) || cmp.Or(cmp.Compare(queue, p.at.queue), cmp.Compare(state, p.at.state)) < 0 {
				continue
			}
			if queue != p.at.queue || state != p.at.state {
				p.at = place{queue, state, p.from - 1, math.MaxInt64}
			}
			for rows := 1; rows > 0; {
				if found >= p.limit || p.seen >= scanned {
					return nil
				}
				rows = 0
				if err := p.t.Read(qFinal, func(r sqldb.Row) error {
					if found >= p.limit {
						return nil
					}
					rows++
					p.at.end, p.at.id = r.Int(0), r.Int(1)
					if r.Int(3) == 0 && (p.a.def.Filter.Kind == "" || p.a.def.Filter.Kind == r.Text(2)) {
						found++
						each(p.at)
					}
					return nil
				}, queue, int64(state), p.at.end, p.at.id, p.a.id, sojourn.MaxFind); err != nil {
					return err
				}
				p.seen += rows
			}
			p.seen++ // an empty queue costs a read too
		}
	}
	p.over = true
	return nil
}

// start is the time from which a pass that is not full looks at jobs.
func (a *row) start() int64 { return max(a.scanned-overlap.Microseconds(), 0) }

// ReadArchive reads final jobs that are not exported; see archive.Store.
func (s *Archivist) ReadArchive(ctx context.Context, r archive.Read) (page archive.Page, err error) {
	if err := sojourn.ValidLimit(r.Limit); err != nil {
		return page, err
	}
	c := access.CallerOf(ctx)
	at := place{}
	if r.After != "" {
		var id sojourn.ID
		if at.queue, at.state, at.end, id, err = r.After.Parse(); err != nil {
			return page, err
		}
		at.id = int64(id)
	}
	err = s.core.View(ctx, func(t *txn.Tx) error {
		page = archive.Page{At: jobrow.Time(t.Now)}
		a, err := read(t, c.Owner(), r.Archive)
		if err != nil {
			return err
		}
		if err := allowed(c, a.def.Filter, access.VerbReadArgs); err != nil {
			return err
		}
		p := &pass{t: t, a: a, limit: cmp.Or(r.Limit, 100), at: at}
		if !r.Full {
			p.from = a.start()
		}
		var found []place
		if err := p.walk(func(at place) { found = append(found, at) }); err != nil {
			return err
		}
		if !p.over {
			page.Next = positionOf(p.at)
		}
		if len(found) > 0 {
			if d, ok := t.Conn.(sqldb.DurableReader); ok {
				d.ReadDurably() // an exported end must not be undone
			}
		}
		n, err := load(t, found, &page)
		if err == nil && n < len(found) {
			page.Next = positionOf(found[n-1])
		}
		return err
	})
	return page, err
}

func positionOf(p place) archive.Position {
	return archive.PositionOf(p.queue, p.state, p.end, sojourn.ID(p.id))
}

// load reads jobs in full until they have maxBytes, at least one chunk, and returns how many.
func load(t *txn.Tx, found []place, page *archive.Page) (n int, err error) {
	bytes := 0
	for some := range slices.Chunk(found, chunk) {
		if bytes >= maxBytes {
			break
		}
		ids, order := make(sqldb.Ints, len(some)), make(map[sojourn.ID]int, len(some))
		f := sojourn.Filter{Full: true, Limit: len(some), States: finals}
		for i, at := range some {
			ids[i], order[sojourn.ID(at.id)] = at.id, i
			f.IDs = append(f.IDs, sojourn.ID(at.id))
		}
		jobs, err := query.Find(t, f)
		if err != nil {
			return n, err
		}
		slices.SortFunc(jobs, func(a, b sojourn.Job) int { return order[a.ID] - order[b.ID] })
		out := make([]archive.Job, len(jobs))
		for i := range jobs {
			out[i] = archive.Job{Job: &jobs[i], Inbox: []sojourn.Response{}, History: []sojourn.HistoryEntry{}}
			order[jobs[i].ID] = i
			bytes += len(jobs[i].Args) + len(jobs[i].Result) + len(jobs[i].Checkpoint)
		}
		more, err := attach(t, ids, out, order)
		if err != nil {
			return n, err
		}
		page.Jobs, n, bytes = append(page.Jobs, out...), n+len(some), bytes+more
	}
	return n, nil
}

// attach adds the responses and the histories of jobs, and returns the bytes of the bodies.
func attach(t *txn.Tx, ids sqldb.Ints, jobs []archive.Job, order map[sojourn.ID]int) (bytes int, err error) {
	if err := t.Read(qInboxes, func(r sqldb.Row) error {
		one := txn.ScanResponse(r)
		j := &jobs[order[one.Job]]
		if len(j.Inbox) < sojourn.MaxFind {
			j.Inbox, bytes = append(j.Inbox, one), bytes+len(one.Body)
		}
		return nil
	}, ids); err != nil {
		return 0, err
	}
	if err := t.Read(qHistories, func(r sqldb.Row) error {
		j := &jobs[order[sojourn.ID(r.Int(historyJob))]]
		h := jobview.ScanHistory(r)
		if n := len(j.History); n > 0 {
			h.Dropped = h.Seq - j.History[n-1].Seq - 1
		}
		j.History = append(j.History, h)
		return nil
	}, ids); err != nil {
		return 0, err
	}
	for i := range jobs {
		if len(jobs[i].Checkpoint) > 0 {
			if err := checkpointsize.OfHistory(t, jobs[i].ID, jobs[i].History); err != nil {
				return 0, err
			}
		}
		if slices.ContainsFunc(jobs[i].History, func(h sojourn.HistoryEntry) bool { return h.Error != "" }) {
			if err := errordetail.OfHistory(t, jobs[i].ID, jobs[i].History); err != nil {
				return 0, err
			}
		}
	}
	return bytes, nil
}

// Archives lists archives; see archive.Store.
func (s *Archivist) Archives(ctx context.Context) (out []archive.Status, err error) {
	c := access.CallerOf(ctx)
	err = s.core.View(ctx, func(t *txn.Tx) error {
		out = nil
		var found []*row
		if err := t.Read(qAll, func(r sqldb.Row) error { found = append(found, scan(r)); return nil }, c.Owner(), jobrow.Bit(c == nil)); err != nil {
			return err
		}
		for _, a := range found {
			status := a.status()
			p, oldest := &pass{t: t, a: a, limit: archive.MaxLag, from: a.start()}, t.Now
			if err := p.walk(func(at place) { status.Lag++; oldest = min(oldest, at.end) }); err != nil {
				return err
			}
			status.Behind = (time.Duration(t.Now-oldest) * time.Microsecond).Seconds()
			out = append(out, status)
		}
		return nil
	})
	return out, err
}

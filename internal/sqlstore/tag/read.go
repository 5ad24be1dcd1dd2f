package tag

import (
	"cmp"
	"context"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/store/tags"
)

// Lister lists tags. Safe for concurrent use.
type Lister struct{ core *txn.Core }

// NewLister makes the lister of a store.
func NewLister(c *txn.Core) *Lister { return &Lister{c} }

// withJob joins the rows of tags with their jobs, which are live or final.
const withJob = ` from sj_tag g left join sj_live l on l.id = g.job left join sj_final f on f.id = g.job`

const (
	qCounts      = `select tag, '', '', count(*) from sj_tag group by tag`
	qCountsOf    = `select g.tag, coalesce(l.queue, f.queue, ''), coalesce(l.kind, f.kind, ''), count(*)` + withJob + ` group by 1, 2, 3`
	entries      = `select g.job, coalesce(l.queue, f.queue, ''), coalesce(l.kind, f.kind, ''), g.tagged_us` + withJob
	qOldest      = entries + ` where g.tag = $1 and (g.tagged_us, g.job) > ($2, $3) order by g.tagged_us, g.job limit $4`
	qNewest      = entries + ` where g.tag = $1 and (g.tagged_us, g.job) < ($2, $3) order by g.tagged_us desc, g.job desc limit $4`
	lastPossible = 1<<63 - 1
)

// Tags counts the jobs of tags; see tags.Store. The queues and kinds of the jobs are read only if
// they decide which jobs are counted.
func (s *Lister) Tags(ctx context.Context, q tags.Query) ([]tags.Count, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	c := access.CallerOf(ctx)
	text := qCounts
	if c != nil || q.Queue != "" || q.Kind != "" {
		text = qCountsOf
	}
	var counts map[string]int64
	if err := s.core.View(ctx, func(t *txn.Tx) error {
		counts = map[string]int64{}
		return t.Read(text, func(r sqldb.Row) error {
			queue, kind := r.Text(1), r.Text(2)
			if (q.Queue == "" || q.Queue == queue) && (q.Kind == "" || q.Kind == kind) && c.Allows(access.VerbRead, queue, kind) {
				counts[r.Text(0)] += r.Int(3)
			}
			return nil
		})
	}); err != nil {
		return nil, err
	}
	var out []tags.Count
	for tag, n := range counts {
		if n >= int64(q.Min) {
			out = append(out, tags.Count{Tag: tag, Jobs: n})
		}
	}
	slices.SortFunc(out, func(a, b tags.Count) int { return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Tag, b.Tag)) })
	return out[:min(len(out), cmp.Or(q.Limit, 100))], nil
}

// TaggedJobs lists the jobs of a tag in the order in which they got it; see tags.Store. Entries
// that the caller may not read are skipped, so it reads on until the page is full.
func (s *Lister) TaggedJobs(ctx context.Context, q tags.JobsQuery) (out []tags.Entry, err error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	c := access.CallerOf(ctx)
	limit := cmp.Or(q.Limit, 100)
	most := limit // rows of a read
	if c != nil {
		most = sojourn.MaxFind
	}
	err = s.core.View(ctx, func(t *txn.Tx) error {
		out = nil
		us, last, _ := q.From() // Validate has checked it
		at, id, text := us, int64(last), qOldest
		if q.Newest {
			if text = qNewest; q.After == "" {
				at, id = lastPossible, lastPossible
			}
		}
		for {
			read := 0
			if err := t.Read(text, func(r sqldb.Row) error {
				read++
				at, id = r.Int(3), r.Int(0)
				if e := (tags.Entry{Job: sojourn.ID(id), Queue: r.Text(1), Kind: r.Text(2), At: jobrow.Time(at)}); len(out) < limit && c.Allows(access.VerbRead, e.Queue, e.Kind) {
					out = append(out, e)
				}
				return nil
			}, q.Tag, at, id, most); err != nil || read < most || len(out) == limit {
				return err
			}
		}
	})
	return out, err
}

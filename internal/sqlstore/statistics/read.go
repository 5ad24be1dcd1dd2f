package statistics

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobstat"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/store/statistics"
)

// Reads of all days from $1 on. An empty text means any queue or kind.
const (
	qDays       = `select day, queue, kind, data from sj_stat where day >= $1 and ($2 = '' or queue = $2) and ($3 = '' or kind = $3)`
	qDayShapes  = `select day, queue, kind, data from sj_stat_histogram where day >= $1 and ($2 = '' or queue = $2) and ($3 = '' or kind = $3)`
	qDayChanges = `select day, events from sj_stat_change where day >= $1`
)

// Statistics adds up the numbers of a query; see statistics.Store. It reads folded rows and
// changes from one snapshot, so that it sees each event once.
func (s *Recorder) Statistics(ctx context.Context, q statistics.Query) (out []statistics.Row, err error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	c := access.CallerOf(ctx)
	by := map[statistics.Dimension]bool{}
	for _, d := range q.By {
		by[d] = true
	}
	var all records
	err = s.core.View(ctx, func(t *txn.Tx) error {
		all = records{}
		first := jobstat.DayOf(t.Now) + 1 - int64(max(q.Days, 1))
		key := func(k jobstat.Key) (jobstat.Key, bool) {
			if k.Day < first || q.Queue != "" && q.Queue != k.Queue || q.Kind != "" && q.Kind != k.Kind || !c.Allows(access.VerbRead, k.Queue, k.Kind) {
				return k, false
			}
			return group(k, by), true
		}
		return all.read(t, key, first, q)
	})
	if err != nil {
		return nil, err
	}
	if len(all) > statistics.MaxRows {
		return nil, sojourn.Invalid("by", "this would be %d rows, and at most %d are returned: name a queue or a kind, or group by less", len(all), statistics.MaxRows)
	}
	if len(q.By) == 0 {
		all.of(jobstat.Key{})
	}
	for _, k := range slices.SortedFunc(maps.Keys(all), jobstat.Key.Compare) {
		out = append(out, rowOf(k, all[k], by[statistics.ByDay], q.Histogram))
	}
	return out, nil
}

// group returns the key of the row that a key is added to.
func group(k jobstat.Key, by map[statistics.Dimension]bool) jobstat.Key {
	if !by[statistics.ByDay] {
		k.Day = 0
	}
	if !by[statistics.ByQueue] {
		k.Queue = ""
	}
	if !by[statistics.ByKind] {
		k.Kind = ""
	}
	return k
}

// read adds up all that is stored.
func (all records) read(t *txn.Tx, key func(jobstat.Key) (jobstat.Key, bool), first int64, q statistics.Query) error {
	for _, of := range []struct {
		text string
		add  func(*jobstat.Record, []byte) error
	}{{qDays, (*jobstat.Record).AddData}, {qDayShapes, (*jobstat.Record).AddHistograms}} {
		if err := t.Read(of.text, func(r sqldb.Row) error {
			k, ok := key(jobstat.Key{Day: r.Int(0), Queue: r.Text(1), Kind: r.Text(2)})
			if !ok {
				return nil
			}
			return of.add(all.of(k), r.Bytes(3))
		}, first, q.Queue, q.Kind); err != nil {
			return err
		}
	}
	return t.Read(qDayChanges, func(r sqldb.Row) error { return all.addEvents(r.Int(0), r.Bytes(1), key) }, first)
}

// rowOf converts a record.
func rowOf(k jobstat.Key, r *jobstat.Record, withDay, histogram bool) statistics.Row {
	out := statistics.Row{Queue: k.Queue, Kind: k.Kind, Enqueued: r.Counts[jobstat.Enqueued], Completed: r.Counts[jobstat.Completed], Failed: r.Counts[jobstat.Failed],
		Cancelled: r.Counts[jobstat.Cancelled], Retried: r.Counts[jobstat.Retried], Redriven: r.Counts[jobstat.Redriven], Failures: r.Counts[jobstat.Failures], Reasons: r.Reasons}
	if withDay {
		out.Day = time.Unix(k.Day*24*60*60, 0).UTC().Format(time.DateOnly)
	}
	for measure, to := range []*statistics.Times{jobstat.Wait: &out.Wait, jobstat.Run: &out.Run, jobstat.Response: &out.Response, jobstat.Total: &out.Total} {
		*to = timesOf(&r.Times[measure], histogram)
	}
	return out
}

// timesOf converts microseconds to seconds.
func timesOf(t *jobstat.Times, histogram bool) statistics.Times {
	out := statistics.Times{Count: t.N, Mean: t.Mean / 1e6, Variance: t.Variance() / 1e12, Max: float64(t.Max) / 1e6}
	for q, to := range map[float64]*float64{0.5: &out.P50, 0.9: &out.P90, 0.95: &out.P95, 0.99: &out.P99, 0.999: &out.P999} {
		if at := t.Quantile(q); !math.IsNaN(at) {
			*to = at / 1e6
		}
	}
	if histogram {
		for _, n := range slices.Sorted(maps.Keys(t.Histogram)) {
			out.Histogram = append(out.Histogram, statistics.Bucket{From: float64(jobstat.BucketFrom(n)) / 1e6, To: float64(jobstat.BucketFrom(n+1)) / 1e6, Count: t.Histogram[n]})
		}
	}
	return out
}

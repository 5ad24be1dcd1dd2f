package gate

import (
	"encoding/json"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/throttle"
)

// source reads the candidates of one queue for one claim, of the kinds that the claim names. The
// lists of candidates are in no order.
type source interface {
	// Continuing lists the jobs that continue, at most as many of each sort as the claim wants:
	// errored jobs, which need no weight, jobs to poll and, if asked for, resumed jobs, which hold
	// theirs.
	Continuing(resumed bool) ([]Candidate, error)
	// Front lists the first ready jobs, at most n of a kind.
	Front(n int) ([]Candidate, error)
	// Groups lists at most n lanes with ready jobs, in order: the next ones after a lane and up to
	// another, without some.
	Groups(after, upTo string, except []string, n int) ([]string, error)
	// Heads lists the first jobs of lanes that are not resumed, at most n of a lane and kind.
	Heads(lanes []string, n int) ([]Candidate, error)
	// Next lists the first jobs of a lane behind a position, at most n of a kind. The zero position
	// is before all jobs that are not resumed.
	Next(lane string, after jobrow.Candidate, n int) ([]Candidate, error)
	// Describe reads what throttlers see of jobs.
	Describe(ids []int64) (map[int64]*throttle.Candidate, error)
	// Reserves reports whether the claim must not skip a job that does not fit into its room.
	Reserves(id int64) (bool, error)
}

const (
	// TextHeads returns the first jobs of each group: queue, kind, lanes, limit of each. PostgreSQL
	// has a text of its own for it (Dialect.Over).
	TextHeads = `with t (lane) as (texts($3)) select l.id, l.r1, l.r2, l.weight, l.lane from t cross join sj_live l where l.id in
	(select h.id from sj_live h where h.queue = $1 and h.kind = $2 and h.state = 3 and h.lane <> '' and h.lane <> '-' and h.lane = t.lane and h.r1 > -2147483649
	order by h.r1, h.r2, h.id limit $4)`
	qFront   = `select id, r1, r2, weight, lane from sj_live where queue = $1 and kind = $2 and state = 3 order by r1, r2, id limit $3`
	qResumed = `select id, r1, r2, weight, lane from sj_live where queue = $1 and kind = $2 and state = 3 and r1 = -2147483649 order by r1, r2, id limit $3`
	qLane    = `select id, r1, r2, weight, lane from sj_live where queue = $1 and kind = $2 and state = 3 and lane <> '' and lane <> '-' and lane = $3 and r1 > -2147483649
		order by r1, r2, id limit $4`
	qLaneAfter = `select id, r1, r2, weight, lane from sj_live where queue = $1 and kind = $2 and state = 3 and lane <> '' and lane <> '-' and lane = $3
		and (r1, r2, id) > ($4, $5, $6) order by r1, r2, id limit $7`
	// qLanes returns the next groups with ready jobs of a kind after $3 and up to $6, without those
	// at their limit. The condition that selects the index must not be a lower bound of the lane:
	// SQLite would begin there, and read all jobs of the groups in between. The least lane is the
	// first of an order, because PostgreSQL may read all lanes for a min() if it does not know
	// their number.
	qLanes = `with recursive g (lane) as (
	select (select l.lane from sj_live l where l.queue = $1 and l.kind = $2 and l.state = 3 and l.lane <> '' and l.lane <> '-' and l.lane > $3 and l.lane <= $6
		order by l.lane limit 1)
	union all
	select (select l.lane from sj_live l where l.queue = $1 and l.kind = $2 and l.state = 3 and l.lane <> '' and l.lane <> '-' and l.lane > g.lane and l.lane <= $6
		order by l.lane limit 1)
	from g where g.lane is not null)
	select lane from g where lane is not null and lane not in (texts($4)) limit $5`
	qDescribe = `select l.id, l.kind, l.key, j.grp, l.priority, l.attempt, l.attempt_open, l.run_at_us, j.created_us, j.tags, j.meta
		from sj_live l join sj_job j on j.id = l.id where l.id in (ints($1))`
)

// sqlSource reads from the database, in a transaction.
type sqlSource struct {
	t     *txn.Tx
	queue string
	r     driver.ClaimRequest
}

func (s *sqlSource) Continuing(resumed bool) (all []Candidate, err error) {
	for _, kind := range s.r.Kinds {
		if resumed {
			if err := s.readKind(kind, sojourn.PurposeResume, &all, qResumed, s.r.Max); err != nil {
				return nil, err
			}
		}
		if !slices.Contains(s.r.Decidable, kind) {
			continue
		}
		if err := s.t.Read(txn.QPickErrored, func(r sqldb.Row) error {
			all = append(all, Candidate{jobrow.Candidate{ID: r.Int(0), R1: r.Int(1), R2: r.Int(2), Weight: 0}, kind, "", sojourn.PurposeDecide})
			return nil
		}, s.queue, kind, s.r.Max); err != nil {
			return nil, err
		}
	}
	polls, err := DuePolls(s.t, s.queue, s.r)
	return append(all, polls...), err
}

func (s *sqlSource) Front(n int) ([]Candidate, error) {
	return s.readKinds(sojourn.PurposeStart, qFront, n)
}

func (s *sqlSource) Groups(after, upTo string, except []string, n int) (found []string, err error) {
	add := func(r sqldb.Row) error { found = append(found, r.Text(0)); return nil }
	for _, kind := range s.r.Kinds {
		if err := s.t.Read(qLanes, add, s.queue, kind, after, sqldb.Texts(except), n, upTo); err != nil {
			return nil, err
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	return found[:min(len(found), n)], nil
}

func (s *sqlSource) Heads(lanes []string, n int) ([]Candidate, error) {
	return s.readKinds(sojourn.PurposeStart, TextHeads, sqldb.Texts(lanes), n)
}

func (s *sqlSource) Next(lane string, after jobrow.Candidate, n int) ([]Candidate, error) {
	if after == (jobrow.Candidate{}) {
		return s.readKinds(sojourn.PurposeStart, qLane, lane, n)
	}
	return s.readKinds(sojourn.PurposeStart, qLaneAfter, lane, after.R1, after.R2, after.ID, n)
}

func (s *sqlSource) Describe(ids []int64) (map[int64]*throttle.Candidate, error) {
	found := make(map[int64]*throttle.Candidate, len(ids))
	return found, s.t.Read(qDescribe, func(r sqldb.Row) error {
		c := &throttle.Candidate{ID: sojourn.ID(r.Int(0)), Kind: r.Text(1), Key: r.Text(2), Group: r.Text(3), Priority: int32(r.Int(4)),
			Attempt: int32(r.Int(5) + 1 - r.Int(6)), RunAt: jobrow.Time(r.Int(7)), CreatedAt: jobrow.Time(r.Int(8))}
		found[r.Int(0)] = c
		return readTagsMeta(r.Text(9), r.Text(10), c)
	}, sqldb.Ints(ids))
}

// readTagsMeta decodes tags and meta, which throttlers see.
func readTagsMeta(tags, meta string, c *throttle.Candidate) error {
	if tags != "" {
		if err := json.Unmarshal([]byte(tags), &c.Tags); err != nil {
			return err
		}
	}
	if meta == "" {
		return nil
	}
	return json.Unmarshal([]byte(meta), &c.Meta)
}

func (s *sqlSource) Reserves(id int64) (bool, error) { return s.t.Reserves(s.r, id) }

// readKinds reads the candidates of a query that begins with queue and kind, for all kinds. Resumed
// ones always get PurposeResume.
func (s *sqlSource) readKinds(purpose sojourn.Purpose, q string, more ...any) (all []Candidate, err error) {
	for _, kind := range s.r.Kinds {
		if err := s.readKind(kind, purpose, &all, q, more...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readKind is readKinds for one kind.
func (s *sqlSource) readKind(kind string, purpose sojourn.Purpose, out *[]Candidate, q string, more ...any) error {
	return s.t.Read(q, func(r sqldb.Row) error {
		e := Candidate{jobrow.Candidate{ID: r.Int(0), R1: r.Int(1), R2: r.Int(2), Weight: r.Int(3)}, kind, r.Text(4), purpose}
		if e.R1 == rules.ResumedRank {
			e.Purpose = sojourn.PurposeResume
		}
		*out = append(*out, e)
		return nil
	}, append([]any{s.queue, kind}, more...)...)
}

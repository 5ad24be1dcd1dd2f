package sqlstore

import (
	"cmp"

	"github.com/sojourn-queue/sojourn"
)

// jsonErrors has the refusal of each job whose args do not parse; nil if all do. Callers run it before they wait for a transaction, which parses for
// nobody then.
func (s *Store) jsonErrors(jobs []sojourn.Job) (refused []error) {
	for i := range jobs {
		j := &jobs[i]
		if len(j.Args) > s.cfg.MaxBytes {
			continue // Validate refuses it
		}
		if err := sojourn.ValidJSON("args", j.ContentType, j.Args); err != nil {
			if refused == nil {
				refused = make([]error, len(jobs))
			}
			refused[i] = err
		}
	}
	return refused
}

const qContentType = `select content_type from sj_job where id = $1`

// validJSON refuses bytes that come for a job and do not parse. Their content type is their own, else that of the job, which is read only for bytes that
// are no JSON. An error without a code is one of the database.
func (t *tx) validJSON(field, own string, b []byte, id sojourn.ID) error {
	refusal := sojourn.ValidJSON(field, own, b)
	if refusal == nil || own != "" {
		return refusal
	}
	var ofJob error // nil for a response before its job, or after it was pruned: nothing says what it is
	err := t.query(qContentType, func(r Row) error {
		ofJob = sojourn.ValidJSON(field, r.Text(0), b)
		return nil
	}, int64(id))
	return cmp.Or(err, ofJob)
}

// validBytes refuses an outcome with bytes that do not parse.
func (t *tx) validBytes(was *live, o *sojourn.Outcome) error {
	err := t.validJSON("result", o.ResultType, o.Result, was.ID)
	if err == nil {
		err = t.validJSON("checkpoint", "", o.Verdict.Checkpoint, was.ID)
	}
	return err
}

// refuseJSON refuses the calls with a body that does not parse. Progress is a text for people, and what is parked addresses nobody. It comes after the
// look, which says whom a response is for.
func (r *responding) refuseJSON() error {
	types, err := r.undeclaredTypes()
	if err != nil {
		return err
	}
	for i := range r.calls {
		c := &r.calls[i]
		for k := range c.rs {
			in := &c.rs[k]
			if c.refused != nil || in.Park || in.Progress {
				continue
			}
			err := sojourn.ValidJSON("body", in.ContentType, in.Body)
			if err != nil && in.ContentType == "" {
				own, known := types[int64(c.targets[k].id)]
				if !known {
					continue // before its job, or after it was pruned: nothing says what it is
				}
				err = sojourn.ValidJSON("body", own, in.Body)
			}
			if err != nil {
				c.refused = sojourn.AtIndex(k, err)
			}
		}
	}
	return nil
}

// undeclaredTypes reads, in one query, the content types of the jobs whose responses are no JSON and declare no type.
func (r *responding) undeclaredTypes() (map[int64]string, error) {
	var ids Ints
	for i := range r.calls {
		c := &r.calls[i]
		for k := range c.rs {
			in := &c.rs[k]
			if c.refused == nil && !in.Park && !in.Progress && in.ContentType == "" && sojourn.ValidJSON("body", "", in.Body) != nil {
				ids = append(ids, int64(c.targets[k].id))
			}
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	types := make(map[int64]string, len(ids))
	err := r.query(`select id, content_type from sj_job where id in (ints($1))`, func(row Row) error {
		types[row.Int(0)] = row.Text(1)
		return nil
	}, ids)
	return types, err
}

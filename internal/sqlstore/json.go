package sqlstore

import (
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// jsonErrors has the refusal of each job whose args do not parse; nil if all do. Callers run it
// before they wait for a transaction, so that no other call waits for the parser.
func (s *core) jsonErrors(jobs []sojourn.Job) (refused []error) {
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

const qTypes = `select id, content_type from sj_job where id in (ints($1))`

// contentTypes has the content types of jobs that get bytes that are no JSON and declare no type:
// those bytes take the type of their job.
type contentTypes map[sojourn.ID]string

func (c contentTypes) scan(row sqldb.Row) error {
	c[sojourn.ID(row.Int(0))] = row.Text(1)
	return nil
}

// notJSON is the bytes for a job that do not parse; the zero value if they parse, or are declared
// to be of another type.
type notJSON struct {
	err   error  // of bytes that are declared to be JSON
	field string // of undeclared bytes, which have the content type of their job's args
	bytes []byte
}

func parse(field, own string, b []byte) notJSON {
	switch {
	case own != "":
		return notJSON{err: sojourn.ValidJSON(field, own, b)}
	case len(b) == 0 || json.Valid(b):
		return notJSON{}
	}
	return notJSON{field: field, bytes: b}
}

// undeclared reports whether the content type of the job decides.
func (n notJSON) undeclared() bool { return n.field != "" }

// newFinishAsk parses the bytes of outcomes, before they wait for a transaction.
func newFinishAsk(outcomes []sojourn.Outcome, c *access.Caller) finishAsk {
	ask := finishAsk{outcomes: outcomes, caller: c}
	for i := range outcomes {
		o := &outcomes[i]
		n := parse("result", o.ResultType, o.Result)
		if n.err == nil && !n.undeclared() {
			n = parse("checkpoint", "", o.Verdict.Checkpoint)
		}
		if n.err != nil || n.undeclared() {
			if ask.notJSON == nil {
				ask.notJSON = make([]notJSON, len(outcomes))
			}
			ask.notJSON[i] = n
		}
	}
	return ask
}

// readTypes reads the content types that outcomes need, in one query.
func (t *tx) readTypes(requests []finishAsk) error {
	var ids sqldb.Ints
	for _, r := range requests {
		for i, n := range r.notJSON {
			if n.undeclared() {
				ids = append(ids, int64(r.outcomes[i].Lease.ID))
			}
		}
	}
	return t.readTypesOf(ids)
}

func (t *tx) readTypesOf(ids sqldb.Ints) error {
	if len(ids) == 0 {
		return nil
	}
	if t.types == nil {
		t.types = make(contentTypes, len(ids))
	}
	return t.query(qTypes, t.types.scan, ids)
}

// refusal returns why bytes for a job are refused. It accepts bytes for a job that does not exist
// yet, or was pruned, because their type is unknown.
func (c contentTypes) refusal(n notJSON, id sojourn.ID) error {
	if !n.undeclared() {
		return n.err
	}
	own, known := c[id]
	if !known {
		return nil
	}
	return sojourn.ValidJSON(n.field, own, n.bytes)
}

// refuseJSON refuses the calls with a body that does not parse. It runs after reads, which finds the
// jobs of the responses.
func (r *responding) refuseJSON() error {
	if err := r.readTypes(); err != nil {
		return err
	}
	for i := range r.calls {
		c := &r.calls[i]
		for k := range c.rs {
			if err := r.types.refusal(c.targets[k].notJSON, c.targets[k].id); c.refused == nil && err != nil {
				c.refused = sojourn.AtIndex(k, err)
			}
		}
	}
	return nil
}

// readTypes reads the content types that the responses need and reads has not read. A key may have
// got another job since reads ran.
func (r *responding) readTypes() error {
	var ids sqldb.Ints
	r.accepted(func(_ *sojourn.Response, to *target) {
		if _, known := r.types[to.id]; !known && to.id != 0 && to.notJSON.undeclared() {
			ids = append(ids, int64(to.id))
		}
	})
	return r.readTypesOf(ids)
}

// needTypes reports whether any response depends on the content type of its job.
func (r *responding) needTypes() (need bool) {
	r.accepted(func(_ *sojourn.Response, to *target) { need = need || to.notJSON.undeclared() })
	return need
}

// noteType notes the content type of a job, which reads reads with its row.
func (r *responding) noteType(row sqldb.Row, l *live) error {
	r.types[l.ID] = row.Text(liveColumnCount)
	return r.noteLeased(row, l)
}

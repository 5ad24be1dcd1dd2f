package sqlstore

import (
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
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

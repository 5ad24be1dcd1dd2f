package txn

import (
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// JSONErrors has the refusal of each job whose args do not parse; nil if all do. Callers run it
// before they wait for a transaction, so that no other call waits for the parser.
func (s *Core) JSONErrors(jobs []sojourn.Job) (refused []error) {
	for i := range jobs {
		j := &jobs[i]
		if len(j.Args) > s.Cfg.MaxBytes {
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

// ContentTypes has the content types of jobs that get bytes that are no JSON and declare no type:
// those bytes take the type of their job.
type ContentTypes map[sojourn.ID]string

func (c ContentTypes) scan(row sqldb.Row) error {
	c[sojourn.ID(row.Int(0))] = row.Text(1)
	return nil
}

// NotJSON is the bytes for a job that do not parse; the zero value if they parse, or are declared
// to be of another type.
type NotJSON struct {
	Err   error  // of bytes that are declared to be JSON
	field string // of undeclared bytes, which have the content type of their job's args
	bytes []byte
}

func CheckJSON(field, own string, b []byte) NotJSON {
	switch {
	case own != "":
		return NotJSON{Err: sojourn.ValidJSON(field, own, b)}
	case len(b) == 0 || json.Valid(b):
		return NotJSON{}
	}
	return NotJSON{field: field, bytes: b}
}

// Undeclared reports whether the content type of the job decides.
func (n NotJSON) Undeclared() bool { return n.field != "" }

func (t *Tx) ReadTypesOf(ids sqldb.Ints) error {
	if len(ids) == 0 {
		return nil
	}
	if t.Loaded.Types == nil {
		t.Loaded.Types = make(ContentTypes, len(ids))
	}
	return t.Read(qTypes, t.Loaded.Types.scan, ids)
}

// Refusal returns why bytes for a job are refused. It accepts bytes for a job that does not exist
// yet, or was pruned, because their type is unknown.
func (c ContentTypes) Refusal(n NotJSON, id sojourn.ID) error {
	if !n.Undeclared() {
		return n.Err
	}
	own, known := c[id]
	if !known {
		return nil
	}
	return sojourn.ValidJSON(n.field, own, n.bytes)
}

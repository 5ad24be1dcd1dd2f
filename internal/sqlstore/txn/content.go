package txn

import (
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// NotJSON is the result of CheckJSON. The zero value is that of bytes that may be stored.
type NotJSON struct {
	Err   error  // the refusal of bytes that are declared to be JSON and do not parse
	field string // of bytes that do not parse and declare no type; "" for others
	bytes []byte // these bytes
}

// CheckJSON parses bytes for a job, with the content type own, if they are declared or supposed to
// be JSON. field names them in the refusal. Callers run it before they wait for a transaction, so
// that no other call waits for the parser.
func CheckJSON(field, own string, b []byte) NotJSON {
	switch {
	case own != "":
		return NotJSON{Err: sojourn.ValidJSON(field, own, b)}
	case len(b) == 0 || json.Valid(b):
		return NotJSON{}
	}
	return NotJSON{field: field, bytes: b}
}

// Undeclared reports whether the content type of the job decides, so that it must be read.
func (n NotJSON) Undeclared() bool { return n.field != "" }

// ContentTypes has the content types of jobs. A result or a response without a type of its own has
// the type of its job, which must be known only if the bytes are no JSON.
type ContentTypes map[sojourn.ID]string

// Refusal returns why bytes for a job are refused; nil if they are not. Bytes for a job that does
// not exist yet, or was pruned, are accepted, because their type is unknown.
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

func (c ContentTypes) scan(row sqldb.Row) error {
	c[sojourn.ID(row.Int(0))] = row.Text(1)
	return nil
}

const qTypes = `select id, content_type from sj_job where id in (ints($1))`

// ReadTypesOf reads the content types of jobs into t.Loaded.Types.
func (t *Tx) ReadTypesOf(ids sqldb.Ints) error {
	if len(ids) == 0 {
		return nil
	}
	if t.Loaded.Types == nil {
		t.Loaded.Types = make(ContentTypes, len(ids))
	}
	return t.Read(qTypes, t.Loaded.Types.scan, ids)
}

// JSONErrors returns the refusals of jobs whose args do not parse, in the order of the jobs; nil if
// all parse. Callers run it before they wait for a transaction, as CheckJSON.
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

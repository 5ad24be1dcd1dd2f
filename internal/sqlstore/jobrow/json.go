package jobrow

import (
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
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

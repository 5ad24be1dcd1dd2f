package sqlstore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
)

// message is the identity of a response: an id that is unique within a scope (docs/decisions/048).
type message struct{ scope, id string }

// Scopes that are not sources. The name of a source cannot begin so, see sojourn.ValidSource.
const (
	linkScope     = "link:"
	keyScope      = "key:"
	conflictScope = "conflict:"
)

// messageOf is the identity of a response that does not come by a capability.
func messageOf(r *sojourn.Response) message {
	m := message{r.Source, r.MessageID}
	switch {
	case r.PerKey && r.Key != "":
		m.scope = keyScope + r.Source + "\n" + r.Kind + "\n" + r.Key // none of the three has a line break
	case r.PerKey && r.Job != 0:
		m.scope = fmt.Sprintf("%s%s\n%d", keyScope, r.Source, r.Job)
	}
	return m
}

// linkMessage is the identity of a response that comes by a capability: its scope is one wait of
// one job.
func linkMessage(c access.Capability, id string) message {
	return message{fmt.Sprintf("%s%d.%d.%d.%d", linkScope, c.Job, c.Generation, c.Attempt, c.Wait), id}
}

// conflicting is the identity of a response whose own identity has other content. A repeat of the
// response gets the same one.
func (m message) conflicting(d digest) message {
	return message{conflictScope + m.scope, hex.EncodeToString(d[:]) + ":" + m.id}
}

// responseDigest covers the content of a response: its addressee, its type, and its bytes. It
// leaves out fields that may differ when the same message is sent again: content type, time to
// live, and the reason for parking.
func responseDigest(r *sojourn.Response) (d digest) {
	var array [1 << 10]byte // most responses are small, and need no memory of their own
	text := array[:0]
	add := func(s string) { text = append(binary.AppendUvarint(text, uint64(len(s))), s...) }
	text = append(text, byte(bit(r.Failed)), byte(bit(r.Progress)), byte(bit(r.Park)))
	text = binary.AppendVarint(text, int64(r.Job))
	add(r.Kind)
	add(r.Key)
	if !r.Park {
		add(r.Reason)
		add(r.Error)
	}
	var sum [sha256.Size]byte
	if len(text)+len(r.Body) <= len(array) {
		sum = sha256.Sum256(append(text, r.Body...))
	} else {
		h := sha256.New()
		h.Write(text)
		h.Write(r.Body)
		h.Sum(sum[:0])
	}
	return digest(sum[:len(d)])
}

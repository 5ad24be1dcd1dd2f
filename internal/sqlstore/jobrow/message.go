package jobrow

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
)

// Message is the identity of a response: an id that is unique within a scope. A second response
// with the same identity is a repeat, or a conflict if its digest differs (docs/decisions/048).
type Message struct{ Scope, ID string }

// Scopes that are not sources. The name of a source cannot begin so, see sojourn.ValidSource.
const (
	linkScope     = "link:"
	keyScope      = "key:"
	conflictScope = "conflict:"
)

// MessageOf returns the identity of a response that was not sent with a capability.
func MessageOf(r *sojourn.Response) Message {
	m := Message{r.Source, r.MessageID}
	switch {
	case r.PerKey && r.Key != "":
		m.Scope = keyScope + r.Source + "\n" + r.Kind + "\n" + r.Key // none of the three has a line break
	case r.PerKey && r.Job != 0:
		m.Scope = fmt.Sprintf("%s%s\n%d", keyScope, r.Source, r.Job)
	}
	return m
}

// LinkMessage returns the identity of a response that was sent with a capability: its scope is one
// wait of one job.
func LinkMessage(c access.Capability, id string) Message {
	return Message{fmt.Sprintf("%s%d.%d.%d.%d", linkScope, c.Job, c.Generation, c.Attempt, c.Wait), id}
}

// Conflicting returns the identity under which a response is stored whose own identity belongs to
// other content. A repeat of the response gets the same one.
func (m Message) Conflicting(d Digest) Message {
	return Message{conflictScope + m.Scope, hex.EncodeToString(d[:]) + ":" + m.ID}
}

// ResponseDigest computes the digest of a response from its addressee, its type and its bytes. It
// leaves out the fields that may differ when a message is sent again: content type, time to live,
// and the reason for parking.
func ResponseDigest(r *sojourn.Response) (d Digest) {
	var array [1 << 10]byte // most responses are small, and need no memory of their own
	text := array[:0]
	add := func(s string) { text = append(binary.AppendUvarint(text, uint64(len(s))), s...) }
	text = append(text, byte(Bit(r.Failed)), byte(Bit(r.Progress)), byte(Bit(r.Park)))
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
	return Digest(sum[:len(d)])
}

package sqlstore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
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

// identify finds responses that repeat a message id with other content. It refuses their calls, or
// gives those with KeepConflict an identity of their own, before any write. It returns the number
// of new identities.
func (r *responding) identify() (fresh int, err error) {
	unseen := make(map[message]digest, len(r.calls))
	var scopes, ids sqldb.Texts // of conflicts
	for i := range r.calls {
		c := &r.calls[i]
		var mine []message // new with this call, removed if the call is refused
		for k := range c.rs {
			if c.refused != nil {
				break
			}
			to := &c.targets[k]
			before, known := unseen[to.as]
			if first := r.firsts[to.as]; first != nil {
				before, known = first.digest, true
			}
			switch {
			case !known:
				unseen[to.as] = to.digest
				if len(c.rs) > 1 {
					mine = append(mine, to.as)
				}
			case before == to.digest:
			case c.rs[k].KeepConflict:
				to.conflict, to.as = true, to.as.conflicting(to.digest)
				scopes, ids = append(scopes, to.as.scope), append(ids, to.as.id)
			default:
				c.refused = sojourn.AtIndex(k, sojourn.Conflict("the message id %.64q came before with another address or body; give each message an id of its own", c.rs[k].MessageID))
				for _, m := range mine {
					delete(unseen, m)
				}
			}
		}
	}
	fresh = len(unseen)
	if len(ids) == 0 {
		return fresh, nil
	}
	return r.identifyConflicts(fresh, scopes, ids)
}

// identifyConflicts finds the conflicting responses that are stored already, and adds the others to
// the new ones.
func (r *responding) identifyConflicts(fresh int, scopes, ids sqldb.Texts) (int, error) {
	err := r.readAll([]sqldb.Statement{{Text: qMessages, Rows: []sqldb.Column{scopes, ids}, Each: r.scanMessage}})
	unseen := map[message]bool{}
	for i := range ids {
		if m := (message{scopes[i], ids[i]}); r.firsts[m] == nil {
			unseen[m] = true
		}
	}
	return fresh + len(unseen), err
}

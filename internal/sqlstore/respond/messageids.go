package respond

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// checkMessageIDs finds responses that repeat a message id with other content. It refuses their
// calls, or gives those with KeepConflict an identity of their own, before any write. It returns
// the number of new identities.
func (b *batch) checkMessageIDs() (fresh int, err error) {
	unseen := make(map[jobrow.Message]jobrow.Digest, len(b.calls))
	var scopes, ids sqldb.Texts // of conflicts
	for i := range b.calls {
		c := &b.calls[i]
		var mine []jobrow.Message // new with this call, removed if the call is refused
		for k := range c.responses {
			if c.refused != nil {
				break
			}
			to := &c.targets[k]
			before, known := unseen[to.as]
			if first := b.stored[to.as]; first != nil {
				before, known = first.Digest, true
			}
			switch {
			case !known:
				unseen[to.as] = to.digest
				if len(c.responses) > 1 {
					mine = append(mine, to.as)
				}
			case before == to.digest:
			case c.responses[k].KeepConflict:
				to.conflict, to.as = true, to.as.Conflicting(to.digest)
				scopes, ids = append(scopes, to.as.Scope), append(ids, to.as.ID)
			default:
				c.refused = sojourn.AtIndex(k, sojourn.Conflict("the message id %.64q came before with another address or body; give each message an id of its own", c.responses[k].MessageID))
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
	return b.findConflicts(fresh, scopes, ids)
}

// findConflicts finds the conflicting responses that are stored already, and adds the others to the
// new ones.
func (b *batch) findConflicts(fresh int, scopes, ids sqldb.Texts) (int, error) {
	err := b.ReadAll([]sqldb.Statement{{Text: qMessages, Rows: []sqldb.Column{scopes, ids}, Each: b.scanMessage}})
	unseen := map[jobrow.Message]bool{}
	for i := range ids {
		if m := (jobrow.Message{Scope: scopes[i], ID: ids[i]}); b.stored[m] == nil {
			unseen[m] = true
		}
	}
	return fresh + len(unseen), err
}

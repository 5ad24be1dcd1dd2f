package sqlstore

import (
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// decoder decodes rows of sj_live. Most jobs share the texts of a few policies and waits, so it
// caches their values. Safe for concurrent use.
type decoder struct {
	policies memo[string, sojourn.Policy] // there are as many as kinds, not as jobs
	waits    memo[string, sojourn.Wait]   // waits without keys
}

// scan reads a row with liveColumns.
func (s *decoder) scan(r sqldb.Row) (*live, error) {
	l := &live{group: r.Text(liveColumnCount - 2), policyJSON: r.Text(liveColumnCount - 1)}
	l.ID = sojourn.ID(r.Int(0))
	var err error
	if l.Policy, err = s.policy(l.policyJSON); err != nil {
		return nil, err
	}
	for i := range liveTable {
		switch c := &liveTable[i]; {
		case c.long != nil:
			*c.long(l) = r.Int(i + 1)
		case c.short != nil:
			*c.short(l) = int32(r.Int(i + 1))
		case c.flag != nil:
			*c.flag(l) = r.Int(i+1) != 0
		case c.text != nil:
			*c.text(l) = r.Text(i + 1)
		case c.code != nil:
			*c.code(l) = uint8(r.Int(i + 1))
		default:
			if err := c.decode(s, l, r.Text(i+1)); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

// policy decodes a stored policy; most jobs share a few texts.
func (s *decoder) policy(text string) (sojourn.Policy, error) {
	p, ok := s.policies.get(text)
	if ok {
		return p, nil
	}
	p, err := readPolicy(text)
	if err == nil {
		s.policies.put(text, p)
	}
	return p, err
}

// wait decodes a stored wait; most waits without keys of their own share a few texts.
func (s *decoder) wait(text string) (sojourn.Wait, error) {
	w, ok := s.waits.get(text)
	if ok {
		return w, nil
	}
	err := json.Unmarshal([]byte(text), &w)
	if err == nil && len(w.Keys) == 0 {
		s.waits.put(text, w)
	}
	return w, err
}

// decodeWait is the reverse of waitJSON.
func decodeWait(s *decoder, l *live, text string) (err error) {
	if text != "" {
		l.awaited = true
		l.Wait, err = s.wait(text)
	}
	return err
}

package jobrow

import (
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// Decoder decodes rows of sj_live. Most jobs share the texts of a few policies and waits, so it
// caches their values. Safe for concurrent use.
type Decoder struct {
	policies BoundedMap[string, sojourn.Policy] // there are as many as kinds, not as jobs
	waits    BoundedMap[string, sojourn.Wait]   // waits without keys
}

// Scan reads a row with LiveColumns.
func (s *Decoder) Scan(r sqldb.Row) (*Row, error) {
	l := &Row{Group: r.Text(LiveColumnCount - 2), PolicyJSON: r.Text(LiveColumnCount - 1)}
	l.ID = sojourn.ID(r.Int(0))
	var err error
	if l.Policy, err = s.Policy(l.PolicyJSON); err != nil {
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

// Policy decodes a stored policy; most jobs share a few texts.
func (s *Decoder) Policy(text string) (sojourn.Policy, error) {
	p, ok := s.policies.Get(text)
	if ok {
		return p, nil
	}
	p, err := readPolicy(text)
	if err == nil {
		s.policies.Put(text, p)
	}
	return p, err
}

// wait decodes a stored wait; most waits without keys of their own share a few texts.
func (s *Decoder) wait(text string) (sojourn.Wait, error) {
	w, ok := s.waits.Get(text)
	if ok {
		return w, nil
	}
	err := json.Unmarshal([]byte(text), &w)
	if err == nil && len(w.Keys) == 0 {
		s.waits.Put(text, w)
	}
	return w, err
}

// decodeWait is the reverse of waitJSON.
func decodeWait(s *Decoder, l *Row, text string) (err error) {
	if text != "" {
		l.Awaited = true
		l.Wait, err = s.wait(text)
	}
	return err
}

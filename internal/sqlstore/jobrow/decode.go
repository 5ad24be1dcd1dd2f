package jobrow

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// Decoder decodes rows of sj_live. Most jobs share the texts of a few policies and waits, so it
// caches their values. The zero value is ready for use. Safe for concurrent use.
type Decoder struct {
	policies BoundedMap[string, sojourn.Policy] // there are as many as kinds, not as jobs
	waits    BoundedMap[string, sojourn.Wait]   // waits without keys
}

// Scan decodes a row that begins with LiveColumns. The error is that of a stored value that cannot
// be decoded.
func (d *Decoder) Scan(r sqldb.Row) (*Row, error) {
	l := &Row{Group: r.Text(LiveColumnCount - 2), PolicyJSON: r.Text(LiveColumnCount - 1)}
	l.ID = sojourn.ID(r.Int(0))
	var err error
	if l.Policy, err = d.Policy(l.PolicyJSON); err != nil {
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
			if err := c.decode(d, l, r.Text(i+1)); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

// Policy decodes a stored policy, see StoredPolicy. The result is shared and must not be changed.
func (d *Decoder) Policy(text string) (sojourn.Policy, error) {
	p, ok := d.policies.Get(text)
	if ok {
		return p, nil
	}
	p, err := readPolicy(text)
	if err == nil {
		d.policies.Put(text, p)
	}
	return p, err
}

// wait decodes a stored wait, whose text is without the last bracket.
func (d *Decoder) wait(text string) (sojourn.Wait, error) {
	w, ok := d.waits.Get(text)
	if ok {
		return w, nil
	}
	err := json.Unmarshal([]byte(text+"}"), &w)
	if err == nil && len(w.Keys) == 0 {
		d.waits.Put(text, w)
	}
	return w, err
}

// decodeWait is the reverse of waitJSON.
func decodeWait(d *Decoder, l *Row, text string) (err error) {
	if text != "" {
		l.Awaited = true
		// Without its time, which differs from job to job, the text is one that the cache knows.
		if i := strings.LastIndex(text, waitedAt); i > 0 {
			l.WaitedAt, _ = strconv.ParseInt(strings.TrimSuffix(text[i+len(waitedAt):], "}"), 10, 64)
			text = strings.TrimSuffix(text[:i], ",")
		} else {
			text = strings.TrimSuffix(text, "}")
		}
		l.Wait, err = d.wait(text)
	}
	return err
}

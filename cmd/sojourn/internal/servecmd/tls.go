package servecmd

import (
	"crypto/tls"
	"os"
	"sync"
	"time"
)

// lookEvery is how often the files of a certificate are looked at.
const lookEvery = time.Second

// certificate reads its files again when one of them has changed. A pair that does not fit, as
// while they are being replaced, leaves the old one.
type certificate struct {
	cert, key string

	mu      sync.Mutex // guards the fields below
	loaded  *tls.Certificate
	changed time.Time // of the newer file
	looked  time.Time
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded != nil && time.Since(c.looked) < lookEvery {
		return c.loaded, nil
	}
	c.looked = time.Now()
	changed := newest(c.cert, c.key)
	if c.loaded != nil && changed.Equal(c.changed) {
		return c.loaded, nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		if c.loaded != nil {
			return c.loaded, nil
		}
		return nil, err
	}
	c.loaded, c.changed = &pair, changed
	return c.loaded, nil
}

func newest(names ...string) (at time.Time) {
	for _, n := range names {
		if info, err := os.Stat(n); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at
}

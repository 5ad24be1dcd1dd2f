// Package session keeps sessions of signed-in people, and counts failed sign-ins.
package session

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

// Limits of sessions.
const (
	Life          = 12 * time.Hour
	Idle          = time.Hour // without a page being opened; live updates do not count
	AttemptsLimit = 10        // failed sign-ins of one address in AttemptsTime
	AttemptsTime  = time.Minute
	maxSessions   = 10_000 // above it the session that was used longest ago ends
	maxAddresses  = 10_000 // with failed sign-ins that are remembered
)

// open is a session. Its person, with the token, stays in memory and is stored nowhere.
type open[P any] struct {
	who        P
	began, use time.Time
}

// attempts counts the failed sign-ins of an address.
type attempts struct {
	failed int
	since  time.Time
}

// Store keeps the sessions of this process, by the SHA-256 of the cookie. They end with it. A
// person is closed at the end of its session. Safe for concurrent use.
type Store[P interface{ Close() error }] struct {
	mu       sync.Mutex // guards the fields below
	open     map[[sha256.Size]byte]*open[P]
	attempts map[string]*attempts
}

// New makes an empty store.
func New[P interface{ Close() error }]() *Store[P] {
	return &Store[P]{open: map[[sha256.Size]byte]*open[P]{}, attempts: map[string]*attempts{}}
}

// Len is the number of open sessions.
func (s *Store[P]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Add begins a session and returns its cookie: 260 random bits.
func (s *Store[P]) Add(who P, now time.Time) (cookie string) {
	cookie = rand.Text() + rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxSessions {
		var oldest [sha256.Size]byte
		at := now
		for key, o := range s.open {
			if o.use.Before(at) {
				oldest, at = key, o.use
			}
		}
		s.drop(oldest)
	}
	s.open[sha256.Sum256([]byte(cookie))] = &open[P]{who: who, began: now, use: now}
	return cookie
}

// Find returns the person of a cookie, if there is such a session. live says that a page asks for
// its live part: that does not keep the session open.
func (s *Store[P]) Find(cookie string, now time.Time, live bool) (who P, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sha256.Sum256([]byte(cookie))
	o := s.open[key]
	if o == nil {
		return who, false
	}
	if now.Sub(o.began) > Life || now.Sub(o.use) > Idle {
		s.drop(key)
		return who, false
	}
	if !live {
		o.use = now
	}
	return o.who, true
}

// End ends the session of a cookie, if there is one.
func (s *Store[P]) End(cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(sha256.Sum256([]byte(cookie)))
}

// drop ends a session; the caller has locked s.
func (s *Store[P]) drop(key [sha256.Size]byte) {
	if o := s.open[key]; o != nil {
		_ = o.who.Close()
		delete(s.open, key)
	}
}

// MayTry reports whether an address may try to sign in.
func (s *Store[P]) MayTry(address string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.attempts[address]
	return a == nil || a.failed < AttemptsLimit || now.Sub(a.since) > AttemptsTime
}

// FailedTry counts a failed sign-in of an address.
func (s *Store[P]) FailedTry(address string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.attempts[address]
	if a == nil || now.Sub(a.since) > AttemptsTime {
		if len(s.attempts) >= maxAddresses {
			clear(s.attempts)
		}
		a = &attempts{since: now}
		s.attempts[address] = a
	}
	a.failed++
}

package txn

import (
	"time"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobevent"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// A transaction that changes jobs writes their transitions if there are followers
// (docs/decisions/067-events.md). It does not read whether there are: it assumes what it has
// learned last, and its last statements check that. If it is wrong, it runs again.

// followedFor is how long a process writes transitions before it checks for a follower again.
const followedFor = 10 * time.Second

// Followed reports whether a new transaction assumes that there are followers.
func (s *Core) Followed() bool { return s.Clock.Monotonic() < s.Caches.followed.Load() }

// SetFollowed sets what the next transactions of this process assume.
func (s *Core) SetFollowed(on bool) {
	s.Caches.followed.Store(jobrow.Bit(on) * (s.Clock.Monotonic() + followedFor.Microseconds()))
}

// ReadFollowed reads whether there are followers, in a transaction that runs again because an
// assumption was wrong.
func (t *Tx) ReadFollowed() error {
	n, err := t.ReadInt(jobevent.AnyFollower)
	t.Core.SetFollowed(n > 0)
	t.Transitions.On = n > 0
	return err
}

// writeTransitions adds the transitions to the write set, or the check that there is no follower,
// if the statistics have not added it. It comes after all writes of jobs, so that a new follower
// waits for this transaction, or the check sees it.
func writeTransitions(t *Tx) {
	if !t.Transitions.Seen {
		return
	}
	if c, ok := t.Conn.(sqldb.Isolated); ok && c.Isolated() {
		t.Add(jobevent.LockFollower, 0, "") // the check alone would not see a follower that is newer than the snapshot
	}
	if t.Transitions.On {
		if rows := t.Transitions.Take(); rows != nil {
			t.Events.Followed = true
			t.AddColumns(jobevent.TextAdd, 0, "", rows)
		}
		return
	}
	t.Transitions.Take()
	if t.Cache.unfollowed || t.Cache.local != nil && t.Core.Caches.Local.unfollowed {
		return
	}
	t.Cache.unfollowed = true
	t.Add(jobevent.TextUnfollowed, 1, jobevent.Raced)
}

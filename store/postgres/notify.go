package postgres

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

var _ sqldb.Signaler = (*DB)(nil)

const (
	notifyEvery = 10 * time.Millisecond // the least time between two notifications of a process
	checkEvery  = 10 * time.Second      // how often an idle connection proves that it still works
	lingering   = time.Second           // for which a process counts as waiting after its last blocked call
	probeLimit  = 2 * time.Second       // of the first notification, which a process sends to itself
	// describeLimit bounds the wait of Status for the first notification.
	describeLimit = 500 * time.Millisecond
	// reconnect is the pause before a new connection; it doubles, up to retryWithin. It is shorter
	// than owner.ConfirmAfter.
	reconnect   = 100 * time.Millisecond
	retryWithin = time.Minute
	maxTopics   = 7900 // bytes; the server takes 7,999
)

// topicAll stands for all topics, topicWaits announces a process that waits.
const (
	topicAll   = "*"
	topicWaits = "w"
)

const (
	qNotify = `select pg_notify($1, $2)`
	// qNotifyWaiting notifies unless no other process waits, and reports whether it has.
	qNotifyWaiting = `select case when pg_try_advisory_xact_lock($1) then null else cast(pg_notify($2, $3) as text) end is not null`
)

// notifier is the connection of a process for wake-ups (docs/decisions/005). It is opened by the
// first signal or blocked call. Behind a pooler in transaction mode nothing can be heard: there the
// first notification, to itself, does not arrive, and the store polls.
//
// A process with blocked calls holds a shared advisory lock. A sender tries to lock it exclusively
// in the statement that notifies: if it can, no other process waits, and nothing is sent. From then
// on it collects topics without a statement, and sends them when another process announces that it
// waits. A waiter takes the lock, announces it, and has its calls read afterwards: so it misses
// neither earlier commits nor those whose topics are still being collected.
type notifier struct {
	db      *DB
	channel string
	key     int64
	works   atomic.Bool   // notifications arrive
	found   sync.Once     // closes probed
	probed  chan struct{} // closed when the first session has found out whether they do
	ended   chan struct{} // closed when run has ended

	mu        sync.Mutex // guards the fields below
	stop      func()     // ends run; nil before the first signal or watch
	closed    bool
	topics    []string // to be sent
	alone     bool     // no other process waits: topics are collected until one announces itself
	watchers  map[int]func(topics []string)
	next      int       // the number of the next watcher
	waitedAt  time.Time // when the last watcher left
	locked    bool      // the session holds the lock of those who wait
	interrupt func()    // ends the wait for a notification; nil while there is none
	kicked    bool      // something is to be done before the next wait
}

func newNotifier(d *DB) *notifier {
	h := fnv.New64a()
	h.Write([]byte(d.tables))
	key := h.Sum64()
	return &notifier{db: d, channel: fmt.Sprintf("sojourn_%016x", key), key: int64(key), ended: make(chan struct{}), probed: make(chan struct{}), watchers: map[int]func([]string){}}
}

// Signals implements sqldb.Signaler.
func (d *DB) Signals() string {
	if d.notifier.works.Load() {
		return "notify"
	}
	return "poll"
}

// tryOut opens the connection, if that was not done before, and waits a moment for the result: a
// process that has just been started is to report the way in use too.
func (n *notifier) tryOut(ctx context.Context) {
	n.mu.Lock()
	n.start(false)
	started := n.stop != nil
	n.mu.Unlock()
	if !started { // the store is closed
		return
	}
	ctx, cancel := context.WithTimeout(ctx, describeLimit)
	defer cancel()
	select {
	case <-n.probed:
	case <-n.ended:
	case <-ctx.Done():
	}
}

// Signal implements sqldb.Signaler.
func (d *DB) Signal(topics []string) {
	n := d.notifier
	n.mu.Lock()
	defer n.mu.Unlock()
	kick := len(n.topics) == 0 && !n.alone
	for _, t := range topics {
		if len(n.topics) > 0 && n.topics[0] == topicAll {
			break
		}
		if !slices.Contains(n.topics, t) {
			n.topics = append(n.topics, t)
		}
	}
	if len(n.topics) > 200 { // the payload would not fit, and the search is slow
		n.topics = []string{topicAll}
	}
	n.start(kick)
}

// Watch implements sqldb.Signaler.
func (d *DB) Watch(heard func(topics []string)) (stop func()) {
	n := d.notifier
	n.mu.Lock()
	defer n.mu.Unlock()
	id := n.next
	n.next++
	n.watchers[id] = heard
	n.start(!n.locked)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.watchers, id)
		n.waitedAt = time.Now()
	}
}

// start runs the connection, and interrupts its wait if kick is set. The caller holds mu.
func (n *notifier) start(kick bool) {
	if n.closed {
		return
	}
	if n.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		n.stop = cancel
		go n.run(ctx)
	}
	if kick {
		n.kicked = true
		if n.interrupt != nil {
			n.interrupt()
		}
	}
}

// close ends the connection, and waits until it is closed.
func (n *notifier) close() {
	n.mu.Lock()
	n.closed = true
	stop := n.stop
	n.mu.Unlock()
	if stop != nil {
		stop()
		<-n.ended
	}
}

// run keeps the connection until ctx ends.
func (n *notifier) run(ctx context.Context) {
	defer close(n.ended)
	pause := reconnect
	for ctx.Err() == nil {
		began := time.Now()
		n.session(ctx)
		n.works.Store(false)
		n.found.Do(func() { close(n.probed) })
		if time.Since(began) > retryWithin {
			pause = reconnect
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, retryWithin)
	}
}

// session connects, checks that notifications arrive, and exchanges them until the connection
// fails.
func (n *notifier) session(ctx context.Context) {
	config := n.db.pool.Config().ConnConfig
	config.DialFunc = dialer(connectLimit).DialContext
	config.RuntimeParams["application_name"] += " notifications" // so that operators see what it is for
	dialing, cancel := context.WithTimeout(ctx, connectLimit)
	c, err := pgx.ConnectConfig(dialing, config)
	cancel()
	if err != nil {
		return
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c.Close(closing)
	}()
	if !n.probe(ctx, c) {
		return
	}
	n.works.Store(true)
	n.found.Do(func() { close(n.probed) })
	n.tell(nil)            // what was committed before this session listened
	_ = n.exchange(ctx, c) // after any error run connects again
	n.works.Store(false)
	if ctx.Err() == nil {
		n.db.judge.Disturb()
	}
	n.db.owner.Lost()
	n.setLocked(false)
	n.setAlone(false)
}

// probe listens, and reports whether a notification of another connection arrives. A pooler in
// transaction mode would hand over one of the same connection, with the end of its transaction.
func (n *notifier) probe(ctx context.Context, c *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if err := n.exec(ctx, c, "listen "+n.channel); err != nil {
		return false
	}
	if _, err := n.db.pool.Exec(ctx, qNotify, pgx.QueryExecModeExec, n.channel, ""); err != nil {
		return false
	}
	for {
		heard, err := c.WaitForNotification(ctx)
		if err != nil {
			return false
		}
		if heard.Payload == "" {
			return true
		}
	}
}

func (n *notifier) exec(ctx context.Context, c *pgx.Conn, q string) error {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	_, err := c.PgConn().Exec(ctx, q).ReadAll()
	return err
}

// exchange sends and receives until the connection fails or ctx ends.
func (n *notifier) exchange(ctx context.Context, c *pgx.Conn) error {
	var sentAt time.Time
	for ctx.Err() == nil {
		if n.db.owner.Missing() {
			if err := n.db.owner.Hold(ctx, c); err != nil {
				return err
			}
		}
		watched, locked, topics, pause := n.work(sentAt)
		if watched != locked {
			if err := n.lock(ctx, c, watched); err != nil {
				return err
			}
			continue // a watcher may have come or left meanwhile
		}
		if topics != nil {
			if err := n.send(ctx, c, topics); err != nil {
				return err
			}
			sentAt = time.Now()
		}
		if err := n.listen(ctx, c, pause); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// lock takes or releases the lock of processes that wait.
func (n *notifier) lock(ctx context.Context, c *pgx.Conn, take bool) error {
	q := fmt.Sprintf(`select pg_advisory_unlock_shared(%d)`, n.key)
	if take { // the announcement is sent at the end of the transaction, when the lock is held
		q = fmt.Sprintf(`select pg_advisory_lock_shared(%d); notify %s, '%s'`, n.key, n.channel, topicWaits)
	}
	if err := n.exec(ctx, c, q); err != nil {
		return err
	}
	n.setLocked(take)
	if take {
		n.tell(nil) // the blocked calls may have read before the lock was held
	}
	return nil
}

func (n *notifier) setLocked(locked bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.locked = locked
}

func (n *notifier) setAlone(alone bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.alone = alone
}

// work returns what is to be done now, and after which time to look again. sentAt is the time of
// the last notification.
func (n *notifier) work(sentAt time.Time) (watched, locked bool, topics []string, pause time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kicked = false
	watched, pause = len(n.watchers) > 0, checkEvery
	if left := lingering - time.Since(n.waitedAt); !watched && n.locked && left > 0 {
		watched, pause = true, left
	}
	if watched != n.locked {
		return watched, n.locked, nil, 0
	}
	if len(n.topics) > 0 && !n.alone {
		if left := notifyEvery - time.Since(sentAt); left > 0 {
			return watched, n.locked, nil, min(pause, left)
		}
		topics, n.topics = n.topics, nil
	}
	return watched, n.locked, topics, pause
}

// send notifies the other processes, unless none of them waits.
func (n *notifier) send(ctx context.Context, c *pgx.Conn, topics []string) error {
	text := strings.Join(topics, "\n")
	if len(text) > maxTopics {
		text = topicAll
	}
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	var sent bool
	err := c.QueryRow(ctx, qNotifyWaiting, pgx.QueryExecModeExec, n.key, n.channel, text).Scan(&sent)
	n.setAlone(err == nil && !sent) // an announcement that has come meanwhile is read after this
	return err
}

// listen waits for notifications, for pause at most, or until there is something to do. After a
// silent checkEvery it checks the connection.
func (n *notifier) listen(ctx context.Context, c *pgx.Conn, pause time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	n.mu.Lock()
	if n.kicked {
		n.mu.Unlock()
		return nil
	}
	n.interrupt = cancel
	n.mu.Unlock()
	heard, err := c.WaitForNotification(waiting)
	n.mu.Lock()
	n.interrupt = nil
	n.mu.Unlock()
	switch {
	case heard != nil:
		switch {
		case heard.PID == c.PgConn().PID() || heard.Payload == "":
		case heard.Payload == topicWaits:
			n.setAlone(false)
		default:
			n.tell(strings.Split(heard.Payload, "\n"))
		}
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case c.IsClosed():
		return err
	case waiting.Err() == context.DeadlineExceeded && pause == checkEvery:
		return n.exec(ctx, c, "")
	case waiting.Err() != nil:
		return nil
	}
	return err
}

// tell hands the topics of a notification to those who watch.
func (n *notifier) tell(topics []string) {
	n.mu.Lock()
	watchers := make([]func([]string), 0, len(n.watchers))
	for _, heard := range n.watchers {
		watchers = append(watchers, heard)
	}
	n.mu.Unlock()
	for _, heard := range watchers {
		heard(topics)
	}
}

package connlimit

import (
	"container/list"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MinPiece is the number of bytes of a body that must arrive within the patience of its Budget,
	// unless the body ends before. A body that trickles is aborted like a silent one.
	MinPiece = 64 << 10
	// firstBuffer is memory that a body has without counting, as its connection has a buffer of
	// that size too.
	firstBuffer = 4 << 10
	// settled is the age at which a body may be aborted to make room for another.
	settled = time.Second
	// drainPatience is the time in which the unread rest of a body must arrive; after it the
	// connection is closed.
	drainPatience = time.Second
)

// Errors of Read. Others are those of the body.
var (
	ErrTooLarge = errors.New("the body exceeds its limit")
	ErrNoRoom   = errors.New("the memory for request bodies is full")
)

// Budget limits the memory of request bodies. Only received bytes count; an announced length does
// not. If the memory is full, the oldest body is aborted, so slow senders cannot hold the memory.
// Safe for concurrent use.
type Budget struct {
	most     int64
	patience time.Duration
	now      func() time.Time

	mu      sync.Mutex // guards the fields below and those of Body
	used    int64
	reading *list.List // of *Body, oldest first
}

// NewBudget makes a budget of so many bytes. A body must bring MinPiece bytes, or its end, within
// each patience.
func NewBudget(most int64, patience time.Duration) *Budget {
	return &Budget{most: most, patience: patience, now: time.Now, reading: list.New()}
}

// SetPatience changes it for later bodies. It must not be called while there are requests.
func (b *Budget) SetPatience(d time.Duration) { b.patience = d }

// Begin sets the deadline for the first piece of the body of a request. Call it before anything
// reads or waits. A request without a body gets none.
func (b *Budget) Begin(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(b.now().Add(b.patience)) // not every server can; its own deadlines apply then
	}
}

// End shortens the deadline for a body that the handler has not read to its end: net/http reads the
// rest of it, so that the connection can be used again, and closes the connection if that fails.
// Call it when the handler returns.
func (b *Budget) End(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(b.now().Add(drainPatience))
	}
}

// Body is a body that is read, or has been read and is still in memory.
type Body struct {
	budget *Budget
	in     io.Reader
	out    *http.ResponseController
	since  int64 // bytes that have come since the deadline was moved
	began  time.Time

	bytes  int64         // guarded by Budget.mu
	at     *list.Element // guarded by Budget.mu; nil when it is read
	gaveUp atomic.Bool   // written under Budget.mu
}

// Body prepares reading from in, which is the body of the request that w answers.
func (b *Budget) Body(w http.ResponseWriter, in io.Reader) *Body {
	return &Body{budget: b, in: in, out: http.NewResponseController(w), began: b.now()}
}

// Read reads from the connection. It moves the deadline as MinPiece bytes have come.
func (y *Body) Read(p []byte) (int, error) {
	n, err := y.in.Read(p)
	if y.since += int64(n); y.since >= MinPiece {
		y.since = 0
		y.extend()
	}
	return n, err
}

func (y *Body) extend() {
	y.budget.mu.Lock()
	defer y.budget.mu.Unlock()
	if !y.gaveUp.Load() {
		_ = y.out.SetReadDeadline(y.budget.now().Add(y.budget.patience))
	}
}

// ReadAll reads decoded, which reads from y, up to most bytes. announced is the length that the
// request names, or less than 0. share is the part of the budget, in percent, that bodies of this
// sort may fill. Release must be called, after an error too.
func (y *Body) ReadAll(decoded io.Reader, announced, most, share int64) ([]byte, error) {
	first := int64(firstBuffer)
	if announced >= 0 {
		first = min(first, announced+1)
	}
	buffer := make([]byte, 0, max(first, 64))
	for {
		n, err := decoded.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		switch {
		case int64(len(buffer)) > most:
			return nil, ErrTooLarge
		case errors.Is(err, io.EOF):
			return buffer, y.reserve(int64(cap(buffer)), share, true) // it keeps its memory until Release
		case y.gaveUp.Load():
			return nil, ErrNoRoom
		case err != nil:
			return nil, err
		case len(buffer) < cap(buffer):
			continue
		}
		size := int64(2 * cap(buffer))
		if announced >= 0 && announced < most && int64(len(buffer)) <= announced {
			size = min(size, announced+1)
		}
		size = max(size, int64(len(buffer))+64)
		if err := y.reserve(size, share, false); err != nil {
			return nil, err
		}
		buffer = append(make([]byte, 0, size), buffer...)
	}
}

// reserve makes the memory of a body grow to so many bytes. One that has been read is not given up
// any more.
func (y *Body) reserve(bytes, share int64, read bool) error {
	b := y.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if y.gaveUp.Load() {
			return ErrNoRoom
		}
		more := bytes - y.bytes
		if more <= 0 || (b.used+more)*100 <= b.most*share || b.used == y.bytes {
			b.used += more
			y.bytes = bytes
			switch {
			case read:
				y.unlist()
			case y.at == nil:
				y.at = b.reading.PushBack(y)
			}
			return nil
		}
		oldest := b.reading.Front()
		if oldest == nil || oldest.Value.(*Body).began.Add(settled).After(b.now()) {
			return ErrNoRoom
		}
		oldest.Value.(*Body).giveUp()
	}
}

// giveUp ends the reading of a body and frees its memory.
func (y *Body) giveUp() {
	y.gaveUp.Store(true)
	y.unlist()
	y.budget.used -= y.bytes
	y.bytes = 0
	_ = y.out.SetReadDeadline(y.budget.now().Add(-time.Second))
}

func (y *Body) unlist() {
	if y.at != nil {
		y.budget.reading.Remove(y.at)
		y.at = nil
	}
}

// Release frees the memory of the body.
func (y *Body) Release() {
	y.budget.mu.Lock()
	defer y.budget.mu.Unlock()
	y.unlist()
	y.budget.used -= y.bytes
	y.bytes = 0
}

// Used is the memory of all bodies.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

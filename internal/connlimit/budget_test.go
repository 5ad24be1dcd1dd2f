package connlimit

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// deadlines is an answer that remembers the deadline for reading.
type deadlines struct {
	http.ResponseWriter
	read time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error { d.read = t; return nil }

var errCut = errors.New("cut")

// sender is a body that has come up to a point.
type sender struct {
	*Body
	out  *deadlines
	pipe *io.PipeWriter
	done chan error
	data []byte
}

func send(b *Budget, announced, most int64) *sender {
	in, out := io.Pipe()
	s := &sender{out: &deadlines{ResponseWriter: httptest.NewRecorder()}, pipe: out, done: make(chan error, 1)}
	s.Body = b.Body(s.out, in)
	go func() {
		var err error
		s.data, err = s.ReadAll(s.Body, announced, most, 100)
		_ = in.Close() // fails pending writes: the reader is gone
		s.done <- err
	}()
	return s
}

// write returns when the reader has read and counted all bytes, because a pipe has no buffer and
// the next read takes the last byte.
func (s *sender) write(n int) {
	_, _ = io.WriteString(s.pipe, strings.Repeat("x", n))
	_, _ = s.pipe.Write(nil)
}

func (s *sender) end(t *testing.T, want error) {
	t.Helper()
	_ = s.pipe.Close()
	if err := <-s.done; !errors.Is(err, want) {
		t.Errorf("the body ended with %v, want %v", err, want)
	}
}

// TestBudget: an announced length reserves no memory. When the memory is full, the body that has
// been arriving for longest is aborted in favour of another.
func TestBudget(t *testing.T) {
	now := time.Unix(1000, 0)
	b := NewBudget(100_000, time.Minute)
	b.now = func() time.Time { return now }
	silent := send(b, 90_000, 100_000)
	if silent.write(10); b.Used() != 0 {
		t.Errorf("%d bytes are counted of an announced body", b.Used())
	}
	slow := send(b, -1, 100_000)
	slow.write(60_000)
	if used := b.Used(); used < 60_000 || used > 2*60_000 {
		t.Errorf("%d bytes are counted of 60,000", used)
	}
	young := send(b, -1, 100_000)
	young.write(70_000)
	young.end(t, ErrNoRoom) // the other one is not slow yet
	now = now.Add(2 * settled)
	quick := send(b, 50_000, 100_000)
	quick.write(50_000)
	quick.end(t, nil)
	if len(quick.data) != 50_000 {
		t.Errorf("%d bytes of 50,000", len(quick.data))
	}
	if !slow.out.read.Before(now) {
		t.Errorf("the slow body may go on until %v", slow.out.read)
	}
	_ = slow.pipe.CloseWithError(errCut) // as the deadline does
	slow.end(t, ErrNoRoom)
	silent.end(t, nil)
	for _, s := range []*sender{silent, slow, young, quick} {
		s.Release()
	}
	if b.Used() != 0 || b.reading.Len() != 0 {
		t.Errorf("%d bytes and %d bodies are left", b.Used(), b.reading.Len())
	}
}

// TestLimit: a body above the limit of its route is refused. A single large body is accepted under
// any budget.
func TestLimit(t *testing.T) {
	b := NewBudget(10_000, time.Minute)
	large := send(b, -1, 50_000)
	large.write(40_000)
	large.end(t, nil)
	large.Release()
	long := send(b, -1, 5_000)
	long.write(5_001)
	long.end(t, ErrTooLarge)
	long.Release()
	exact := send(b, 5_000, 5_000)
	exact.write(5_000)
	exact.end(t, nil)
	exact.Release()
}

// TestDeadlineMoves: only MinPiece more bytes move the deadline, so a drip does not.
func TestDeadlineMoves(t *testing.T) {
	now := time.Unix(1000, 0)
	b := NewBudget(1<<20, time.Minute)
	b.now = func() time.Time { return now }
	s := send(b, -1, 1<<20)
	s.write(MinPiece - 1)
	if !s.out.read.IsZero() {
		t.Errorf("a drip moves the deadline to %v", s.out.read)
	}
	s.write(1)
	s.write(1)
	s.end(t, nil)
	if want := now.Add(time.Minute); !s.out.read.Equal(want) {
		t.Errorf("the deadline is %v, want %v", s.out.read, want)
	}
	s.Release()
}

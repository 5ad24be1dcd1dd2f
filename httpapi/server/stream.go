package server

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/admission"
)

const (
	ndjsonType     = "application/x-ndjson"
	streamBuffer   = 16 << 10              // bytes
	streamRetry    = 20 * time.Millisecond // until the next attempt to take a slot
	streamBatch    = 500                   // lines that are stored together, if they have come
	streamPatience = 60 * time.Second      // between two lines, and for taking the acknowledgements
)

// Acknowledged is the answer to one line of a stream.
type Acknowledged struct {
	Line int `json:"line" doc:"from 1"`
	wire.Enqueued
}

// stream reads jobs and writes acknowledgements.
type stream struct {
	*call
	in   *bufio.Reader
	out  *http.ResponseController
	last *lastingCall
	line int
}

// enqueueStream stores one job per line. A line is acknowledged when it is durable. If the
// connection breaks, acknowledged lines are stored; other lines may or may not be. An invalid line
// is answered with an error and does not end the stream.
func enqueueStream(c *call, _ *nothingIn) (done, error) {
	if t, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")); t != ndjsonType {
		return done{}, wire.Refusal(wire.CodeMediaType, "send one JSON object a line, as %s", ndjsonType)
	}
	if encoding := contentEncoding(c.r.Header); encoding != "" {
		return done{}, wire.Refusal(wire.CodeEncoding, "the header Content-Encoding is %.64q: send a stream without a Content-Encoding", encoding)
	}
	if err := c.admit.Wait(); err != nil {
		return done{}, err
	}
	defer c.admit.Waited()
	ctx, last, forget := c.last(c.ctx, c.who, func(h *holder) error { return h.has(access.VerbEnqueue) })
	defer forget()
	c.ctx, c.raw = ctx, false
	s := &stream{call: c, in: bufio.NewReaderSize(c.r.Body, streamBuffer), out: http.NewResponseController(c.w), last: last}
	defer context.AfterFunc(ctx, s.interrupt)()
	_ = s.out.EnableFullDuplex()
	c.w.Header().Set("Content-Type", ndjsonType)
	_ = s.out.SetReadDeadline(time.Now().Add(streamPatience))
	if first, _ := s.in.Peek(2); gzipped(first) {
		return done{}, unsaidEncoding()
	}
	for {
		lines, err := s.batch()
		if no := denied(ctx); no != nil {
			lines, err = nil, no // lines that follow the token's expiry or revocation are not stored
		}
		if len(lines) > 0 {
			if failed := s.store(lines); failed != nil {
				return done{}, failed
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return done{}, s.out.Flush()
		default:
			return done{}, s.acknowledge([]Acknowledged{{Line: s.line + 1, Enqueued: wire.Enqueued{Error: wire.Item(s.coded(c.r, "", err))}}})
		}
		if c.closing.Load() {
			return done{}, nil // acknowledged lines are stored; the caller continues on another server
		}
	}
}

// interrupt ends the reading of a stream.
func (s *stream) interrupt() { _ = s.out.SetReadDeadline(time.Now().Add(-time.Second)) }

// batch reads the lines that have arrived, at least one.
func (s *stream) batch() (lines [][]byte, err error) {
	_ = s.out.SetReadDeadline(time.Now().Add(streamPatience))
	_ = s.out.SetWriteDeadline(time.Now().Add(streamPatience)) // else that of the server ends the stream
	if s.ctx.Err() != nil {
		s.interrupt() // the deadline may have replaced that of an interrupt
	}
	for len(lines) < streamBatch {
		line, err := s.next()
		if len(bytes.TrimSpace(line)) > 0 {
			lines = append(lines, line)
		}
		if err != nil {
			return lines, err
		}
		if rest, _ := s.in.Peek(s.in.Buffered()); bytes.IndexByte(rest, '\n') < 0 && len(lines) > 0 {
			break
		}
	}
	return lines, nil
}

// next reads one line, at most as many bytes as a body has.
func (s *stream) next() ([]byte, error) {
	var line []byte
	for {
		part, err := s.in.ReadSlice('\n')
		line = append(line, part...)
		if int64(len(line)) > s.most {
			return nil, s.tooLarge()
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, s.broken(err) // the last line may be half a line
		}
		return line, err
	}
}

func (s *stream) store(lines [][]byte) error {
	if h := s.last.who.Load(); h != s.who { // its grants may have changed
		s.setHolder(h)
	}
	answers := make([]Acknowledged, len(lines))
	var jobs []*sojourn.Job
	var place []int
	for i, b := range lines {
		s.line++
		answers[i].Line = s.line
		var n wire.NewJob
		err := s.codec.ReadStrict(b, &n)
		j := n.Job()
		if err == nil {
			err = s.who.may(access.VerbEnqueue, j.Queue, j.Kind)
		}
		if err != nil {
			answers[i].Error = wire.Item(s.coded(s.r, "", err))
			continue
		}
		s.inheritTrace(&j)
		jobs, place = append(jobs, &j), append(place, i)
	}
	if len(jobs) > 0 {
		slot, err := s.slotWhenFree()
		if err != nil {
			return err
		}
		defer slot.Leave()
		es, err := s.client.EnqueueEach(s.ctx, jobs...)
		for k, i := range place {
			if err != nil {
				answers[i].Error = wire.Item(s.coded(s.r, "", err))
				continue
			}
			answers[i].Enqueued = wire.EnqueuedOf(es[k])
			if p := answers[i].Error; p != nil {
				p.Index = nil // the line says it
			}
		}
	}
	return s.acknowledge(answers)
}

// slotWhenFree takes the slot for a batch. A stream waits for it instead of being refused. Nothing
// is read meanwhile, so the sender gets backpressure.
func (s *stream) slotWhenFree() (*admission.Slot, error) {
	for {
		slot, err := s.admit.Enter(s.class, 0)
		if err == nil {
			return slot, nil
		}
		select {
		case <-s.ctx.Done():
			return nil, cmp.Or(denied(s.ctx), s.ctx.Err())
		case <-time.After(streamRetry):
		}
	}
}

func (s *stream) acknowledge(answers []Acknowledged) error {
	_ = s.out.SetWriteDeadline(time.Now().Add(streamPatience))
	var buffer bytes.Buffer
	for _, a := range answers {
		if err := s.codec.Write(&buffer, a); err != nil {
			return err
		}
		buffer.WriteByte('\n')
	}
	if _, err := s.w.Write(buffer.Bytes()); err != nil {
		return &undelivered{err}
	}
	return s.out.Flush()
}

package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

const (
	ndjsonType     = "application/x-ndjson"
	streamBatch    = 500              // lines that are stored together, if they have come
	streamPatience = 60 * time.Second // between two lines, and for taking the acknowledgements
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
	line int
}

// enqueueStream stores one job a line. A line is acknowledged when it is durable, so what was acknowledged before the connection breaks is stored,
// and nothing else of a line that was not is promised. Lines that cannot be taken are answered with an error and stop nothing.
func enqueueStream(c *call, _ *nothingIn) (done, error) {
	if t, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")); t != ndjsonType {
		return done{}, wire.Refusal(wire.CodeMediaType, "send one JSON object a line, as %s", ndjsonType)
	}
	s := &stream{call: c, in: bufio.NewReaderSize(c.r.Body, 64<<10), out: http.NewResponseController(c.w)}
	_ = s.out.EnableFullDuplex()
	c.w.Header().Set("Content-Type", ndjsonType)
	for {
		lines, err := s.batch()
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
			return done{}, nil // what was acknowledged stands; the caller goes on elsewhere
		}
	}
}

// batch reads the lines that have come, at least one.
func (s *stream) batch() (lines [][]byte, err error) {
	_ = s.out.SetReadDeadline(time.Now().Add(streamPatience))
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
			err = s.who.may(sojourn.VerbEnqueue, j.Queue, j.Kind)
		}
		if err != nil {
			answers[i].Error = wire.Item(s.coded(s.r, "", err))
			continue
		}
		jobs, place = append(jobs, &j), append(place, i)
	}
	if len(jobs) > 0 {
		es, err := s.client.EnqueuePartial(s.ctx, jobs)
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

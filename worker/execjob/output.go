package execjob

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// pipe copies the output of a program to the log.
type pipe struct {
	r, w  *os.File
	lines lines
	done  sync.WaitGroup
}

func newPipe(log func(line string)) (*pipe, error) {
	r, w, err := os.Pipe()
	return &pipe{r: r, w: w, lines: lines{log: log}}, err
}

func (p *pipe) close() {
	p.r.Close()
	p.w.Close()
}

// start reads until the last writer has closed the pipe. The program never waits for the log, which
// drops lines above its bound.
func (p *pipe) start() {
	p.w.Close()
	p.done.Go(p.read)
}

// read reads to the end, or to the deadline that end sets. It still reads the output that is in the
// pipe by then: the last lines are the most useful.
func (p *pipe) read() {
	_, err := io.Copy(&p.lines, p.r)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	b := make([]byte, pipeRoom)
	for left := pipeRoom; left > 0 && p.r.SetReadDeadline(time.Now().Add(10*time.Millisecond)) == nil; {
		n, err := p.r.Read(b[:left])
		_, _ = p.lines.Write(b[:n])
		if left -= n; err != nil {
			return
		}
	}
}

// pipeRoom is what a pipe can hold: 64 KiB, and 1 MiB where the program has asked for more.
const pipeRoom = 1 << 20

// end waits for the output of the ended group.
func (p *pipe) end() {
	_ = p.r.SetReadDeadline(time.Now().Add(readLast))
	p.done.Wait()
	p.r.Close()
	p.lines.flush()
}

// lines splits the written bytes into log lines and keeps the tail of all. The bytes of a line
// beyond lineRoom are counted, not kept.
type lines struct {
	log  func(line string)
	part []byte // the beginning of a line that has not ended
	size int    // of all of it
	tail []byte // at most twice MaxTail
	all  int64  // bytes written
}

// lineRoom bounds a line so that the log can append its truncation mark.
const lineRoom = sojourn.MaxProgress - 64

// Write never fails.
func (l *lines) Write(b []byte) (int, error) {
	l.all += int64(len(b))
	l.tail = append(l.tail, b[max(len(b)-MaxTail, 0):]...)
	if len(l.tail) > 2*MaxTail {
		l.tail = append(l.tail[:0], l.tail[len(l.tail)-MaxTail:]...)
	}
	for rest := b; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		l.size += len(line)
		l.part = append(l.part, line[:min(len(line), lineRoom-len(l.part))]...)
		if ended {
			l.flush()
		}
		rest = after
	}
	return len(b), nil
}

// flush logs the unfinished line. It skips empty lines.
func (l *lines) flush() {
	text := strings.TrimRight(string(l.part), " \t\r")
	if l.size > len(l.part) {
		text += fmt.Sprintf("… [cut, %d bytes]", l.size)
	}
	if text != "" {
		l.log(text)
	}
	l.part, l.size = l.part[:0], 0
}

// last is the end of the written bytes: at most MaxTail, in whole lines if possible.
func (l *lines) last() string {
	text := string(l.tail[max(len(l.tail)-MaxTail, 0):])
	if _, after, ok := strings.Cut(text, "\n"); l.all > MaxTail && ok && after != "" {
		text = after
	}
	return strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
}

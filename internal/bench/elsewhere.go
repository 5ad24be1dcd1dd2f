package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Elsewhere starts another process that calls RunWorker for a queue of the store of c, and returns
// its output. The process ends when the output is closed.
type Elsewhere func(ctx context.Context, c *sojourn.Client, queue string) (io.ReadCloser, error)

// apart is a System whose worker is in another process.
type apart struct {
	*Sojourn
	elsewhere Elsewhere
}

// Work implements System.
func (a apart) Work(ctx context.Context, done func(int)) error {
	out, err := a.elsewhere(ctx, a.Client, a.queue())
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { out.Close() })
	defer stop()
	defer out.Close()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var number int
		if n, _ := fmt.Sscanf(lines.Text(), "start %d", &number); n == 1 {
			a.Start(number)
		} else if n, _ := fmt.Sscanf(lines.Text(), "done %d", &number); n == 1 {
			done(number)
		} else {
			return fmt.Errorf("the worker in another process has ended: %s", lines.Text())
		}
	}
	if ctx.Err() == nil {
		return fmt.Errorf("the worker in another process has ended")
	}
	return nil
}

// RunWorker works on a queue until ctx ends, and writes a line for each job that starts and for
// each report of ends. The lines of a moment are written together.
func RunWorker(ctx context.Context, c *sojourn.Client, queue string, out io.Writer) error {
	var mu sync.Mutex
	lines := bufio.NewWriterSize(out, 1<<16)
	write := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if lines.Buffered() == 0 {
			time.AfterFunc(lineDelay, func() {
				mu.Lock()
				defer mu.Unlock()
				lines.Flush()
			})
		}
		lines.WriteString(line)
	}
	s := &Sojourn{Client: c, Queue: queue, Start: func(number int) { write(fmt.Sprintf("start %d\n", number)) }}
	return s.Work(ctx, func(n int) { write(fmt.Sprintf("done %d\n", n)) })
}

// lineDelay is added to each start that is measured in another process.
const lineDelay = 100 * time.Microsecond

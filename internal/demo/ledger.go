package demo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/sojourn-queue/sojourn"
)

// journal is a file of JSON lines that only grows. A line is written with one call, so a process
// that is killed leaves whole lines; what a full disk has torn is skipped. It is not synced: a
// power cut may take the newest lines, and then the audit demands less than it could, never more.
type journal struct {
	mu sync.Mutex // guards file
	f  *os.File
}

// openJournal reads the lines of a file, if there is one, and opens it to append.
func openJournal[T any](path string, each func(T)) (*journal, error) {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range bytes.Lines(old) {
		var v T
		if json.Unmarshal(line, &v) == nil {
			each(v)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if len(old) > 0 && old[len(old)-1] != '\n' {
		if _, err := f.WriteString("\n"); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return &journal{f: f}, nil
}

func (j *journal) append(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	_, err = j.f.Write(append(line, '\n'))
	return err
}

func (j *journal) close() error { return j.f.Close() }

// ledger records the store's acknowledgements: orders acknowledged by Enqueue, and messages for
// which the gateway got a 2xx. All of them must be found in the store.
type ledger struct {
	journal *journal

	mu       sync.Mutex            // guards what follows
	jobs     map[sojourn.ID]string // the kind, empty for a charge
	orders   map[int]bool
	answers  map[answer]bool
	outcomes map[string]map[sojourn.ResponseOutcome]int // by source
}

// answer is a message that was acknowledged.
type answer struct{ source, id string }

// entry is a line of the ledger: an order with its job, or a message with its Respond outcome. An
// order is written after its extra jobs: if it is missing, all of them are enqueued again.
type entry struct {
	Order   int                     `json:"order,omitempty"`
	Job     sojourn.ID              `json:"job,omitempty"`
	Kind    string                  `json:"kind,omitempty"` // of a job that the order brings along
	Answer  string                  `json:"answer,omitempty"`
	Source  string                  `json:"source,omitempty"` // of the answer; empty: the gateway
	Outcome sojourn.ResponseOutcome `json:"outcome,omitempty"`
}

func openLedger(path string) (*ledger, error) {
	l := &ledger{jobs: map[sojourn.ID]string{}, orders: map[int]bool{}, answers: map[answer]bool{}, outcomes: map[string]map[sojourn.ResponseOutcome]int{}}
	j, err := openJournal(path, l.add)
	if err != nil {
		return nil, fmt.Errorf("the ledger: %w", err)
	}
	l.journal = j
	return l, nil
}

func (l *ledger) add(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case e.Job > 0:
		l.jobs[e.Job] = e.Kind
		if e.Kind == "" {
			l.orders[e.Order] = true
		}
	case e.Answer != "":
		from := cmp.Or(e.Source, ofGateway)
		l.answers[answer{from, e.Answer}] = true
		if l.outcomes[from] == nil {
			l.outcomes[from] = map[sojourn.ResponseOutcome]int{}
		}
		l.outcomes[from][e.Outcome]++
	}
}

func (l *ledger) write(e entry) error {
	if err := l.journal.append(e); err != nil {
		return fmt.Errorf("the ledger: %w", err)
	}
	l.add(e)
	return nil
}

// enqueued is the number of jobs that are acknowledged.
func (l *ledger) enqueued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.jobs)
}

func (l *ledger) responses() Responses {
	l.mu.Lock()
	defer l.mu.Unlock()
	var r Responses
	for _, n := range l.outcomes {
		r.Applied, r.Early = r.Applied+n[sojourn.Applied], r.Early+n[sojourn.Early]
		r.Duplicate, r.Late, r.Parked = r.Duplicate+n[sojourn.Duplicate], r.Late+n[sojourn.Late], r.Parked+n[sojourn.Parked]
	}
	return r
}

// over counts the jobs of a kind and its responses over a wire.
func (l *ledger) over(wire, kind string) PartnerReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.outcomes[wire]
	r := PartnerReport{Broker: wire, Kind: kind, Answered: n[sojourn.Applied], Duplicate: n[sojourn.Duplicate], Parked: n[sojourn.Parked],
		Other: n[sojourn.Early] + n[sojourn.Late]}
	for _, k := range l.jobs {
		if k == kind {
			r.Jobs++
		}
	}
	return r
}

// open gives the numbers below the highest acknowledged order that are not acknowledged themselves,
// and the first one above. A process that died may have stored some of them, so they are enqueued
// first, under the same key.
func (l *ledger) open() (gaps []int, next int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	top := 0
	for n := range l.orders {
		top = max(top, n)
	}
	for n := 1; n < top; n++ {
		if !l.orders[n] {
			gaps = append(gaps, n)
		}
	}
	return gaps, top + 1
}

// sorted gives the ids of all acknowledged jobs in their order.
func (l *ledger) sorted() []sojourn.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]sojourn.ID, 0, len(l.jobs))
	for id := range l.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// messages gives all acknowledged answers, by source and id.
func (l *ledger) messages() []answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Keys(l.answers), func(a, b answer) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.id, b.id))
	})
}

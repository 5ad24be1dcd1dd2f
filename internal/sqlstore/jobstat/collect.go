// Package jobstat counts what happens to jobs by queue, kind and day, and how long it takes
// (docs/decisions/066-statistics.md). It knows no database.
//
// A transaction collects its events in Changes and stores their encoded form as one row:
// counts, and single times as they are. A fold decodes rows into records and merges these. So a hot
// transaction computes no histogram.
package jobstat

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// Changes are the events of a transaction that are not written yet. The zero value is empty.
type Changes struct {
	Off  bool // nothing is counted, see Without.Statistics
	rows []change
	at   map[name]int // their places
	last int          // the place of the change before
}

type name struct{ queue, kind string }

// change has the events of a queue and kind.
type change struct {
	name
	counts  Counts
	reasons map[string]int64
	times   [Measures]samples
}

// samples are times as varints.
type samples struct {
	n     uint64
	bytes []byte
}

// of returns the change of a queue and kind.
func (c *Changes) of(queue, kind string) *change {
	if c.last < len(c.rows) {
		if r := &c.rows[c.last]; r.queue == queue && r.kind == kind {
			return r
		}
	}
	k := name{queue, kind}
	i := slices.IndexFunc(c.rows[:min(len(c.rows), few)], func(r change) bool { return r.name == k })
	if i < 0 {
		i = c.place(k)
	}
	c.last = i
	return &c.rows[i]
}

// few is the number of changes that are found without a map. Most transactions have fewer.
const few = 4

// place finds or makes a change beyond the first few.
func (c *Changes) place(k name) int {
	if i, ok := c.at[k]; ok {
		return i
	}
	c.rows = append(c.rows, change{name: k})
	i := len(c.rows) - 1
	if i >= few {
		if c.at == nil {
			c.at = map[name]int{}
		}
		c.at[k] = i
	}
	return i
}

// Count counts events.
func (c *Changes) Count(queue, kind string, what int, n int64) {
	if !c.Off {
		c.of(queue, kind).counts[what] += n
	}
}

// Failure counts a failure by its reason.
func (c *Changes) Failure(queue, kind, reason string) {
	if c.Off {
		return
	}
	r := c.of(queue, kind)
	if r.reasons == nil {
		r.reasons = map[string]int64{}
	}
	r.reasons[cmp.Or(reason, Unknown)]++
	r.counts[Failures]++
}

// Time adds a time in microseconds; one below 0 is 0.
func (c *Changes) Time(queue, kind string, measure int, us int64) {
	if c.Off {
		return
	}
	s := &c.of(queue, kind).times[measure]
	if s.n++; s.bytes == nil {
		s.bytes = make([]byte, 0, 96) // about 30 times: as many as a group often has
	}
	s.bytes = binary.AppendUvarint(s.bytes, uint64(max(us, 0)))
}

// Any reports whether there are changes.
func (c *Changes) Any() bool { return len(c.rows) > 0 }

// Take empties the changes and returns their encoded form.
func (c *Changes) Take() []byte {
	size := 1
	for i := range c.rows {
		r := &c.rows[i]
		size += len(r.queue) + len(r.kind) + 2*int(counters) + 2*int(Measures) + 8
		for k := range r.times {
			size += len(r.times[k].bytes)
		}
	}
	b := append(make([]byte, 0, size), version)
	for i := range c.rows {
		r := &c.rows[i]
		b = appendCounts(appendText(appendText(b, r.queue), r.kind), &r.counts, r.reasons)
		for k := range r.times {
			b = append(binary.AppendUvarint(b, r.times[k].n), r.times[k].bytes...)
		}
	}
	*c = Changes{Off: c.Off}
	return b
}

// version is the first byte of encoded events and of a stored record.
const version = 1

var errFormat = errors.New("statistics in an unknown format")

// AddEvents adds encoded events to the records of its queues and kinds on a day. each
// chooses the record of a queue and kind; nil skips them.
func AddEvents(events []byte, each func(queue, kind string) *Record) error {
	d := decoder{rest: events}
	d.version()
	for len(d.rest) > 0 && !d.bad {
		queue, kind := d.text(), d.text()
		var skipped Record
		r := each(queue, kind)
		if r == nil {
			r = &skipped
		}
		d.counts(r)
		for i := range r.Times {
			for n := d.number(); n > 0 && !d.bad; n-- {
				if us := d.number(); r != &skipped && !d.bad {
					r.Times[i].Add(int64(us))
				}
			}
		}
	}
	return d.err()
}

// appendCounts appends counts and reasons.
func appendCounts(b []byte, counts *Counts, reasons map[string]int64) []byte {
	for _, n := range counts {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(b, uint64(len(reasons)))
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		b = binary.AppendUvarint(appendText(b, reason), uint64(reasons[reason]))
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

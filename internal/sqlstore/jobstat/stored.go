package jobstat

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
)

// Data is the stored form of a record without its histograms.
func (r *Record) Data() []byte {
	b := appendCounts([]byte{version}, &r.Counts, r.Reasons)
	for i := range r.Times {
		t := &r.Times[i]
		b = binary.AppendUvarint(b, uint64(t.N))
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(t.Mean))
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(t.Squares))
		b = binary.AppendUvarint(b, uint64(t.Max))
	}
	return b
}

// Histograms is the stored form of the histograms of a record.
func (r *Record) Histograms() []byte {
	b := []byte{version}
	for i := range r.Times {
		h := r.Times[i].Histogram
		b = binary.AppendUvarint(b, uint64(len(h)))
		before := 0
		for _, n := range slices.Sorted(maps.Keys(h)) {
			b = binary.AppendUvarint(b, uint64(n-before))
			b = binary.AppendUvarint(b, uint64(h[n]))
			before = n
		}
	}
	return b
}

// AddData adds a stored record without histograms.
func (r *Record) AddData(data []byte) error {
	d := decoder{rest: data}
	d.version()
	var o Record
	d.counts(&o)
	for i := range o.Times {
		o.Times[i] = Times{N: int64(d.number()), Mean: d.float(), Squares: d.float(), Max: int64(d.number())}
	}
	if d.bad || len(d.rest) > 0 {
		return errFormat
	}
	r.Merge(&o)
	return nil
}

// AddHistograms adds stored histograms.
func (r *Record) AddHistograms(data []byte) error {
	d := decoder{rest: data}
	d.version()
	for i := range r.Times {
		b := 0
		for n := d.number(); n > 0 && !d.bad; n-- {
			b += int(d.number())
			if count := int64(d.number()); !d.bad {
				r.Times[i].bucket(b, count)
			}
		}
	}
	return d.err()
}

// decoder reads values from bytes. After an error it reads zeros.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) err() error {
	if d.bad || len(d.rest) > 0 {
		return errFormat
	}
	return nil
}

func (d *decoder) take(n int) []byte {
	if d.bad || n < 0 || n > len(d.rest) {
		d.bad = true
		return nil
	}
	out := d.rest[:n]
	d.rest = d.rest[n:]
	return out
}

func (d *decoder) version() {
	if b := d.take(1); len(b) == 0 || b[0] != version {
		d.bad = true
	}
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.rest)
	if d.bad || size <= 0 {
		d.bad = true
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) float() float64 {
	b := d.take(8)
	if b == nil {
		return 0
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b))
}

func (d *decoder) text() string { return string(d.take(int(min(d.number(), math.MaxInt32)))) }

// counts adds counts and reasons to a record.
func (d *decoder) counts(r *Record) {
	for i := range r.Counts {
		r.Counts[i] += int64(d.number())
	}
	n := d.number()
	if n == 0 || d.bad {
		return
	}
	reasons := map[string]int64{}
	for ; n > 0 && !d.bad; n-- {
		reason := d.text()
		reasons[reason] += int64(d.number())
	}
	r.addReasons(reasons)
}

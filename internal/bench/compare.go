package bench

import (
	"context"
	"fmt"
	"slices"
)

// Figures holds the results of a system. Rates are jobs per second; 0 means not measured.
type Figures struct {
	LifePerS     float64 `json:"life_per_s"`               // whole lives while the producers enqueue one job a call
	EnqueuePerS  float64 `json:"enqueue_per_s"`            // enqueues alone, one job a call
	EnqueueP50MS float64 `json:"enqueue_p50_ms"`           // of an enqueue's acknowledgement during the whole lives
	EnqueueP99MS float64 `json:"enqueue_p99_ms"`           //
	AloneP99MS   float64 `json:"enqueue_alone_p99_ms"`     // the same without workers
	BareLifePerS float64 `json:"bare_life_per_s,omitzero"` // whole lives without the worker library around claim and finish
	BulkLifePerS float64 `json:"bulk_life_per_s,omitzero"` // whole lives while the producers enqueue many jobs a call
	BulkPerS     float64 `json:"bulk_per_s,omitzero"`      // enqueues alone, many jobs a call
	Durability   string  `json:"durability"`               // the data that survives a power cut
	Runs         int     `json:"runs"`                     // of which these are the medians
	Cut          int     `json:"cut,omitzero"`             // measurements that ended by the clock
	Ratio        *Ratio  `json:"ours_to_this,omitempty"`
}

// Ratio is ours divided by theirs in the same run, the median of the runs; of p99 as well, where
// less is better.
type Ratio struct {
	Life       float64 `json:"life"`
	Enqueue    float64 `json:"enqueue"`
	EnqueueP99 float64 `json:"enqueue_p99"`
	BareLife   float64 `json:"bare_life,omitzero"` // ours bare to theirs
	BulkLife   float64 `json:"bulk_life,omitzero"`
	Bulk       float64 `json:"bulk,omitzero"`
}

// fields are the measured fields of f, in an order.
func (f *Figures) fields() []*float64 {
	return []*float64{&f.LifePerS, &f.EnqueuePerS, &f.EnqueueP50MS, &f.EnqueueP99MS, &f.AloneP99MS, &f.BareLifePerS, &f.BulkLifePerS, &f.BulkPerS}
}

// Entry is a system in a comparison.
type Entry struct {
	Name       string
	Durability string
	// Run measures once, from an empty database on.
	Run func(ctx context.Context) (Figures, error)
}

// Open makes a System with an empty database.
type Open func(ctx context.Context) (System, error)

// Measure makes the Run of a System: enqueues alone, and whole lives, one job a call and many, each
// on a database of its own. A load without jobs is left out. bare, if it is not nil, opens the
// system for the figure without the worker library.
func Measure(open, bare Open, single, bulk Load) func(context.Context) (Figures, error) {
	return func(ctx context.Context) (f Figures, err error) {
		on := func(open Open, load Load, measure func(context.Context, System, Load) (Measured, error)) (m Measured) {
			if err == nil {
				m, err = fresh(ctx, open, load, measure)
			}
			if m.Cut {
				f.Cut++
			}
			return m
		}
		if single.Jobs > 0 {
			life := on(open, single, Life)
			alone := on(open, single, Enqueues)
			f.LifePerS, f.EnqueuePerS = life.PerSecond(), alone.PerSecond()
			f.EnqueueP50MS, f.EnqueueP99MS = Milliseconds(life.Ack.Quantile(0.5)), Milliseconds(life.Ack.Quantile(0.99))
			f.AloneP99MS = Milliseconds(alone.Ack.Quantile(0.99))
			if bare != nil {
				f.BareLifePerS = on(bare, single, Life).PerSecond()
			}
		}
		if bulk.Jobs > 0 {
			f.BulkLifePerS = on(open, bulk, Life).PerSecond()
			f.BulkPerS = on(open, bulk, Enqueues).PerSecond()
		}
		return f, err
	}
}

func fresh(ctx context.Context, open Open, load Load, measure func(context.Context, System, Load) (Measured, error)) (Measured, error) {
	sys, err := open(ctx)
	if err != nil {
		return Measured{}, err
	}
	settle()
	m, err := measure(ctx, sys, load)
	if closed := sys.Close(); err == nil {
		err = closed
	}
	return m, err
}

// Compare runs the entries in turn, runs times, and returns the medians. The ratio of the first
// entry to each of the others is computed within each run, because other load on the machine slows
// both. Compare calls progress after each entry of a run.
func Compare(ctx context.Context, entries []Entry, runs int, progress func(string)) (map[string]Figures, error) {
	all := make([][]Figures, len(entries))
	for run := range runs {
		for i, e := range entries {
			f, err := e.Run(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name, err)
			}
			progress(fmt.Sprintf("run %d of %d: %s: %.0f lives/s, %.0f enqueues/s; in bulk %.0f and %.0f", run+1, runs, e.Name, f.LifePerS, f.EnqueuePerS,
				f.BulkLifePerS, f.BulkPerS))
			all[i] = append(all[i], f)
		}
	}
	out := map[string]Figures{}
	for i, e := range entries {
		f := medians(all[i])
		f.Durability, f.Runs = e.Durability, runs
		if i > 0 {
			f.Ratio = ratios(all[0], all[i])
		}
		out[e.Name] = f
	}
	return out, nil
}

func medians(of []Figures) (m Figures) {
	for field := range m.fields() {
		values := make([]float64, len(of))
		for i := range of {
			values[i] = *of[i].fields()[field]
		}
		*m.fields()[field] = Median(values)
	}
	for _, f := range of {
		m.Cut += f.Cut
	}
	return m
}

// Median is the middle value, or the mean of the two; 0 of none.
func Median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

func ratios(ours, theirs []Figures) *Ratio {
	over := func(a, b func(Figures) float64) float64 {
		var quotients []float64
		for i := range ours {
			if d := b(theirs[i]); d != 0 {
				quotients = append(quotients, a(ours[i])/d)
			}
		}
		return Median(quotients)
	}
	same := func(of func(Figures) float64) float64 { return over(of, of) }
	life := func(f Figures) float64 { return f.LifePerS }
	return &Ratio{
		Life:       same(life),
		Enqueue:    same(func(f Figures) float64 { return f.EnqueuePerS }),
		EnqueueP99: same(func(f Figures) float64 { return f.EnqueueP99MS }),
		BareLife:   over(func(f Figures) float64 { return f.BareLifePerS }, life),
		BulkLife:   same(func(f Figures) float64 { return f.BulkLifePerS }),
		Bulk:       same(func(f Figures) float64 { return f.BulkPerS }),
	}
}

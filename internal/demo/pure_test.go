package demo

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sojourn-queue/sojourn"
)

func TestFatesFollowTheirShares(t *testing.T) {
	w := Defaults().World
	const n = 40_000
	var never, twice, atOnce, errs, declines, strangers, garbled, busy int
	for i := range n {
		f := w.fate(1, orderName(i), 1)
		if f != w.fate(1, orderName(i), 1) {
			t.Fatalf("the fate of order %d is not the same twice", i)
		}
		if !f.atOnce && (f.delay < w.MinDelay || f.delay > w.MaxDelay) || f.atOnce && f.delay != 0 {
			t.Fatalf("order %d is answered after %v", i, f.delay)
		}
		for _, c := range []struct {
			is bool
			n  *int
		}{{f.never, &never}, {f.twice, &twice}, {f.atOnce, &atOnce}, {f.status == failed, &errs}, {f.status == declined, &declines},
			{f.stranger, &strangers}, {f.garbled, &garbled}, {w.busy(1, orderName(i), 1), &busy}} {
			if c.is {
				*c.n++
			}
		}
	}
	for _, c := range []struct {
		name  string
		got   int
		share float64
	}{{"never", never, w.Never}, {"twice", twice, w.Twice}, {"at once", atOnce, w.AtOnce}, {"errors", errs, w.Errors},
		{"declined", declines, w.Declined}, {"strangers", strangers, w.Strangers}, {"garbled", garbled, w.Garbled}, {"busy", busy, w.Busy}} {
		spread := 5 * math.Sqrt(n*c.share*(1-c.share)) // five standard deviations
		if want := n * c.share; math.Abs(float64(c.got)-want) > spread {
			t.Errorf("%s: %d of %d, want %.0f ± %.0f", c.name, c.got, n, want, spread)
		}
	}
	if w.fate(1, "order-1", 1) == w.fate(2, "order-1", 1) && w.fate(1, "order-2", 1) == w.fate(2, "order-2", 1) {
		t.Error("another seed changes nothing")
	}
	if w.fate(1, "order-1", 1) == w.fate(1, "order-1", 2) && w.fate(1, "order-2", 1) == w.fate(1, "order-2", 2) {
		t.Error("another try changes nothing")
	}
}

func TestHeadlessEnqueuesAThousandInTenSeconds(t *testing.T) {
	c := Headless(10 * time.Second)
	c.Path = "x"
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	sold := time.Duration(float64(c.Orders) / c.Rate * float64(time.Second))
	if c.Orders < 1000 || sold > 6*time.Second || c.Within > 5*time.Second {
		t.Errorf("%d orders in %v, waits of %v", c.Orders, sold, c.Within)
	}
	if half := c.AtRate(c.Rate / 2); half.Orders != c.Orders/2 {
		t.Errorf("at half the rate: %d orders", half.Orders)
	}
	if d := Defaults().AtRate(7); d.Orders != 0 || d.Rate != 7 {
		t.Errorf("a run without an end got %d orders at the rate %v", d.Orders, d.Rate)
	}
}

func TestConfigRefusesWhatMakesNoSense(t *testing.T) {
	good := Defaults()
	good.Path = "x"
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(c *Config){
		"no path":      func(c *Config) { c.Path = "" },
		"rate 0":       func(c *Config) { c.Rate = 0 },
		"rate NaN":     func(c *Config) { c.Rate = math.NaN() },
		"backwards":    func(c *Config) { c.For = -1 },
		"no clerk":     func(c *Config) { c.Clerks = 0 },
		"no worker":    func(c *Config) { c.Workers = 0 },
		"fault":        func(c *Config) { c.Fault = "other" },
		"delays":       func(c *Config) { c.World.MaxDelay = c.World.MinDelay - 1 },
		"skew":         func(c *Config) { c.World.Skew = 0.5 },
		"share":        func(c *Config) { c.World.Busy = 1.1 },
		"shares":       func(c *Config) { c.World.Never, c.World.Twice = 0.6, 0.6 },
		"NaN share":    func(c *Config) { c.World.Strangers = math.NaN() },
		"minus orders": func(c *Config) { c.Orders = -1 },
	} {
		c := good
		spoil(&c)
		if err := c.Validate(); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPercentilesAreNearestRanks(t *testing.T) {
	var w window
	if got := w.percentiles(); got != (Percentiles{}) {
		t.Errorf("of nothing: %v", got)
	}
	for i := range 100 {
		w.add(time.Duration(100-i) * time.Millisecond)
	}
	if got := w.percentiles(); got != (Percentiles{50, 99}) {
		t.Errorf("of 1 to 100 ms: %v", got)
	}
	for range windowSize {
		w.add(time.Second)
	}
	if got := w.percentiles(); got != (Percentiles{1000, 1000}) {
		t.Errorf("old values are still in the window: %v", got)
	}
}

func TestRatesAreOverTheLastSeconds(t *testing.T) {
	var r rates
	r.add(tally{})
	for s := 1; s <= 20; s++ {
		n := float64(s * 10)
		if s > 10 {
			n = 100 // nothing more happens
		}
		e, f, a := r.add(tally{time.Duration(s) * time.Second, n, n / 2, n / 10})
		if s == 10 && (e != 10 || f != 5 || a != 1) || s == 20 && (e != 0 || f != 0 || a != 0) {
			t.Errorf("second %d: %v %v %v", s, e, f, a)
		}
	}
}

func snapshotForTest() Snapshot {
	s := Snapshot{Path: "/tmp/sojourn-demo-1234567890/demo.db", Store: "sqlite 3.53.4 (fsync)", Seed: 1<<31 - 1, Up: 61 * time.Second, Enqueued: 1234567,
		Counts: map[sojourn.State]int64{sojourn.Awaiting: 42, sojourn.Completed: 1234567}, EnqueueRate: 25, WaitMS: Percentiles{1.25, 1234},
		Partners: []PartnerReport{{Broker: "nats", Queue: "exports", Jobs: 1234567, Answered: 1234567, Parked: 1}, {Broker: "kafka", Queue: "parcels", Jobs: 1234567, Answered: 1234567, Parked: 1}}}
	for range maxEvents {
		s.Events = append(s.Events, Event{time.Unix(0, 0), strings.Repeat("long\x1b[2J\n", 30)})
	}
	return s
}

func TestScreenFitsATerminal(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(render(snapshotForTest()), "\n"), "\n")
	if len(lines) > 23 { // the cursor stands on a line of its own
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines[:len(lines)-4] { // commands to copy are not cut
		if n := utf8.RuneCountInString(l); n > 100 {
			t.Errorf("%d columns: %s", n, l)
		}
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{"awaiting", "42", "1234567", "01:01", "seed 2147483647", "queue pause payments", "kill -9 ", "nats 1234567 of 1234567 exports", "2 unreadable"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }); i >= 0 {
		t.Errorf("a control character of an event reaches the terminal: %q", text[i:min(i+20, len(text))])
	}
	s := snapshotForTest()
	s.Draining, s.Trouble = true, "disk full"
	if text := render(s); !strings.Contains(text, "draining") || !strings.Contains(text, "disk full") {
		t.Error(text)
	}
}

func TestScreenLeavesTheTerminalUsable(t *testing.T) {
	var b strings.Builder
	show := Screen(&b)
	show(snapshotForTest())
	show(snapshotForTest())
	for _, sticky := range []string{"\x1b[?1049h", "\x1b[?25l"} { // a killed process could not take these back
		if strings.Contains(b.String(), sticky) {
			t.Errorf("%q", sticky)
		}
	}
	if n := strings.Count(b.String(), "\x1b[2J"); n != 1 {
		t.Errorf("cleared %d times", n)
	}
}

func TestLinesOneASecond(t *testing.T) {
	var b strings.Builder
	show := Lines(&b)
	s := snapshotForTest()
	for i := range 7 {
		s.Up = time.Duration(i) * redraw
		show(s)
	}
	s.Draining = true
	show(s)
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[1], "00:01 enqueued 1234567 (25/s) awaiting 42 completed 1234567 | applied 0") {
		t.Errorf("%d lines:\n%s", len(lines), b.String())
	}
}

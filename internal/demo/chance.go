package demo

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// RandomSeed draws a seed below 2^31, short enough to type.
func RandomSeed() uint64 { return uint64(rand.Uint32() >> 1) }

// chance draws from the seed and a name, so that the fate of an order depends neither on the
// scheduling of goroutines nor on a restart.
func chance(seed uint64, name string, number int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()+uint64(number)*0x9e3779b97f4a7c15))
}

// traits holds the properties of an order.
type traits struct {
	cents    int
	region   string
	express  bool
	delay    time.Duration // of the enqueue
	withdraw time.Duration // after which it is cancelled; 0 = never
	dropped  bool          // by the fault drop-ack
}

var regions = []string{"eu", "us", "ap"}

func (c Config) traits(n int) traits {
	r := chance(c.Seed, "order", n)
	t := traits{cents: 100 + r.IntN(20_000), region: regions[r.IntN(len(regions))], express: r.Float64() < c.Express}
	later, withdrawn := r.Float64() < c.Later, r.Float64() < c.Withdrawn
	if later {
		t.delay = time.Second + time.Duration(r.Int64N(int64(time.Second)))
	}
	if withdrawn {
		t.withdraw = 200*time.Millisecond + time.Duration(r.Int64N(int64(1800*time.Millisecond)))
	}
	t.dropped = c.Fault == DropAck && (n == 1 || r.Float64() < dropShare) // even in the shortest run
	return t
}

// drops reports whether the fault drop-ack strikes an answer.
func (c Config) drops(message string) bool {
	return c.Fault == DropAck && chance(c.Seed, "drop "+message, 0).Float64() < dropShare
}

// fate is the gateway's reaction to one attempt to charge a card.
type fate struct {
	status   string
	delay    time.Duration
	never    bool
	twice    bool
	atOnce   bool
	stranger bool
	garbled  bool
}

// The gateway's replies to a charge.
const (
	approved = "approved"
	declined = "declined"
	failed   = "error" // no charge was made; a new try may work
)

func (w World) fate(seed uint64, order string, try int) fate {
	r := chance(seed, order, try)
	f := fate{status: approved, delay: w.delay(r.Float64())}
	switch u := r.Float64(); {
	case u < w.Never:
		f.never = true
	case u < w.Never+w.Twice:
		f.twice = true
	case u < w.Never+w.Twice+w.AtOnce:
		f.atOnce, f.delay = true, 0
	}
	switch u := r.Float64(); {
	case u < w.Errors:
		f.status = failed
	case u < w.Errors+w.Declined:
		f.status = declined
	}
	f.stranger = r.Float64() < w.Strangers
	f.garbled = r.Float64() < w.Garbled
	return f
}

// delay spreads u, from 0 to 1, over the range of delays.
func (w World) delay(u float64) time.Duration {
	return w.MinDelay + time.Duration(float64(w.MaxDelay-w.MinDelay)*math.Pow(u, w.Skew))
}

// busy reports whether the gateway turns a request away; the n-th of an order.
func (w World) busy(seed uint64, order string, n int) bool {
	return chance(seed, "busy "+order, n).Float64() < w.Busy
}

func orderName(n int) string {
	digits := strconv.Itoa(n)
	return "order-" + "000000"[min(len(digits), 6):] + digits
}

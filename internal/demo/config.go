package demo

import (
	"log/slog"
	"math"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Config configures the demo. [Defaults] and [Headless] return complete ones.
type Config struct {
	Path    string        // the ledgers are Path.ledger and Path.gateway
	Seed    uint64        // of all chance; the same seed draws the same orders and answers
	Rate    float64       // orders a second, above 0
	Orders  int           // stop selling after so many in this run; 0 = never
	For     time.Duration // end by itself; 0 = when the context ends
	Clerks  int           // goroutines that enqueue; at least 1
	Workers int           // jobs that run at the same time; at least 1

	Within      time.Duration   // how long a job awaits the answer
	MaxAttempts int32           // errors and missing answers until a job fails
	Backoff     sojourn.Backoff // between attempts

	Express   float64 // share of orders with a better priority
	Later     float64 // share of orders that are enqueued with a delay of 1 to 2 s
	Withdrawn float64 // share of orders that are cancelled within 2 s

	World  World
	Wires  func(path string) ([]Wire, error) // starts the brokers of a Path; nil = none
	Fault  Fault
	Logger *slog.Logger // of the worker; nil = none
}

// World is the behaviour of the gateway, and of the companies behind the brokers: Never, Twice,
// AtOnce and Garbled are theirs, and half of the delay. Shares are of requests, from 0 to 1.
type World struct {
	MinDelay  time.Duration // the shortest time until an answer
	MaxDelay  time.Duration // the longest
	Skew      float64       // 1 = all delays alike; the larger, the more short ones
	Never     float64       // no answer to this request; a repeated one may get it
	Twice     float64       // the same answer two times
	AtOnce    float64       // the answer comes before the request itself returns
	Errors    float64       // an error response: no charge was made, ask again
	Declined  float64       // the card is declined
	Busy      float64       // HTTP 429: come back later
	Strangers float64       // an answer for an order that nobody placed comes along
	Garbled   float64       // an answer over a broker that cannot be read
}

// Fault is something that Run does wrong on purpose, so that its own check can be checked.
type Fault string

// The faults.
const (
	NoFault Fault = ""
	DropAck Fault = "drop-ack" // acknowledge 1 % of orders and answers without storing them
)

const dropShare = 0.01

// Defaults are for watching: 25 orders a second until the context ends. A job waits 12 s for its
// answer, a little longer than the slowest one takes.
func Defaults() Config {
	return Config{
		Rate: 25, Clerks: 16, Workers: 20,
		Within: 12 * time.Second, MaxAttempts: 4,
		Backoff: sojourn.Backoff{First: time.Second, Factor: 2, Limit: 10 * time.Second},
		Express: 0.05, Later: 0.05, Withdrawn: 0.01,
		World: World{
			MinDelay: 500 * time.Millisecond, MaxDelay: 10 * time.Second, Skew: 6,
			Never: 0.03, Twice: 0.02, AtOnce: 0.01, Errors: 0.02, Declined: 0.03, Busy: 0.01, Strangers: 0.005, Garbled: 0.02,
		},
	}
}

// Headless returns the settings for checks: 250 orders per second for the first 60 % of d (longer
// if the machine is slow), then the rest of d for the responses. Jobs wait for 40 % of d, 1 s to
// 12 s, so that a missing response is requested again in time. Orders whose response is missing at
// the end count as live.
func Headless(d time.Duration) Config {
	c := Defaults()
	c.For, c.Orders = d, 1
	c.Within = min(max(d*4/10, time.Second), c.Within)
	return c.AtRate(250)
}

// AtRate sets the rate, and with it the number of orders if the run has an end to its selling.
func (c Config) AtRate(rate float64) Config {
	c.Rate = rate
	if c.Orders > 0 {
		c.Orders = max(1, int(math.Ceil(rate*0.6*c.For.Seconds())))
	}
	return c
}

// Validate checks the ranges. The error is an *sojourn.Error with CodeInvalid.
func (c Config) Validate() error {
	switch {
	case c.Path == "":
		return sojourn.Invalid("db", "is empty")
	case !(c.Rate > 0 && c.Rate <= 100_000):
		return sojourn.Invalid("rate", "%v is out of range: above 0, at most 100000 orders a second", c.Rate)
	case c.For < 0 || c.For > 30*24*time.Hour:
		return sojourn.Invalid("for", "%v is out of range: 0 (no end) to 30 days", c.For)
	case c.Orders < 0 || c.Clerks < 1 || c.Workers < 1:
		return sojourn.Invalid("demo", "orders are at least 0, clerks and workers at least 1")
	case c.Fault != NoFault && c.Fault != DropAck:
		return sojourn.Invalid("fault", "%.64q is not a fault: use %s", string(c.Fault), DropAck)
	}
	w := c.World
	if w.MinDelay < 0 || w.MaxDelay < w.MinDelay || !(w.Skew >= 1) {
		return sojourn.Invalid("world", "delays are 0 <= min <= max, and the skew is at least 1")
	}
	for _, s := range []float64{c.Express, c.Later, c.Withdrawn, w.Never + w.Twice + w.AtOnce, w.Errors + w.Declined, w.Busy, w.Strangers, w.Garbled} {
		if !(s >= 0 && s <= 1) {
			return sojourn.Invalid("world", "a share of %v is out of range: 0 to 1", s)
		}
	}
	return nil
}

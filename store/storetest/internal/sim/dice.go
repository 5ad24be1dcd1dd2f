package sim

import "time"

// dice is a sequence of random numbers (splitmix64): one for each operation, so that an operation
// stays the same when others are dropped.
type dice struct{ state uint64 }

// throw makes the dice of the n-th operation of a seed.
func throw(seed uint64, n int) *dice {
	return &dice{seed*0x9e3779b97f4a7c15 ^ (uint64(n)+1)*0xd1342543de82ef95}
}

// n is a number in [0, n).
func (d *dice) n(n int) int {
	d.state += 0x9e3779b97f4a7c15
	x := d.state
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(n))
}

// chance is true in percent of all cases.
func (d *dice) chance(percent int) bool { return d.n(100) < percent }

// between is a duration in microseconds.
func (d *dice) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.n(int((most-least)/time.Microsecond)+1))*time.Microsecond
}

func oneOf[T any](d *dice, of ...T) T { return of[d.n(len(of))] }

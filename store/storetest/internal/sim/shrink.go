package sim

// Shrink drops operations as long as the run fails, in at most tries runs, and returns the shortest
// list that was found with its result. An operation stays what it is when others are dropped, as
// far as what it refers to is still there.
func Shrink(open Open, seed uint64, ops []int, tries int) ([]int, Result) {
	best := Run(open, seed, ops)
	if best.Err == nil {
		return ops, best
	}
	for i, n := range ops { // what comes after the failure never happened
		if n == best.Failed {
			ops = ops[:i+1]
			break
		}
	}
	for size := len(ops) / 2; size > 0 && tries > 0; {
		shorter := false
		for from := 0; from < len(ops) && tries > 0; {
			without := append(append([]int{}, ops[:from]...), ops[min(from+size, len(ops)):]...)
			tries--
			if got := Run(open, seed, without); got.Err != nil {
				ops, best, shorter = without, got, true
			} else {
				from += size
			}
		}
		if !shorter || size > len(ops) {
			size /= 2
		}
	}
	return ops, best
}

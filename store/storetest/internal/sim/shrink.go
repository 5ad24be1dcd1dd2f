package sim

// Shrink drops operations as long as the run fails, in at most tries runs, and returns the shortest
// list found with its result. Dropping operations does not change the others, as long as the jobs
// that they refer to still exist.
func Shrink(open Open, seed uint64, ops []int, tries int) ([]int, Result) {
	best := Run(open, seed, ops)
	if best.Err == nil {
		return ops, best
	}
	for i, n := range ops { // operations after the failure were not run
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
			if got := runFor(open, seed, without, patienceToShrink); got.Err != nil {
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

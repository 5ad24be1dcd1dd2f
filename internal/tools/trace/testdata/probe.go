// Package probe records which functions run. Command trace adds it to the module for one run.
package probe

import (
	"sync/atomic"
	"time"
)

var (
	recording atomic.Bool
	entered   = make([]atomic.Bool, len(Functions))
)

// Enter is the first statement of each traced function.
func Enter(function int) {
	if recording.Load() {
		entered[function].Store(true)
	}
}

// tail is how long the store may work for a call after its answer.
const tail = 5 * time.Millisecond

// During runs do and returns the functions that any goroutine has entered until tail after it, as
// indexes of Functions.
func During(do func() error) (functions []int, err error) {
	for i := range entered {
		entered[i].Store(false)
	}
	recording.Store(true)
	err = do()
	time.Sleep(tail)
	recording.Store(false)
	for i := range entered {
		if entered[i].Load() {
			functions = append(functions, i)
		}
	}
	return functions, err
}

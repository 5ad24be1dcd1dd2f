package bench

import (
	"runtime"
	"syscall"
)

// settle completes the pending work of the previous measurement: garbage collection, disk writes
// and frees. Otherwise the system measured after River, with its many rows, would pay for it.
func settle() {
	runtime.GC()
	syscall.Sync()
}

package bench

import (
	"runtime"
	"syscall"
)

// settle ends what another measurement has left to do: garbage, and what the disk is still to write
// or to free. Whoever comes after River with its many rows would pay for it otherwise.
func settle() {
	runtime.GC()
	syscall.Sync()
}

//go:build !linux

package bench

import "runtime"

func settle() { runtime.GC() }

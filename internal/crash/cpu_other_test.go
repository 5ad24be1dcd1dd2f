//go:build !unix

package crash

import "time"

// processorTime is not known here.
func processorTime() time.Duration { return 0 }

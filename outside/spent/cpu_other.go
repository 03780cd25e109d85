//go:build !unix

package spent

import "time"

// Known says whether the system counts it.
const Known = false

// CPU is 0 here.
func CPU() time.Duration { return 0 }

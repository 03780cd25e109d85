package fleet

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestCourse: a lease whose result is of no use ends when that is seen, and says why; the next one, the trainer's, has
// its own.
func TestCourse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, Options{})
		var broken atomic.Bool
		broken.Store(true)
		stop, _ := c.join("once", func(ctx context.Context, j Job) ([]byte, error) {
			payload, err := takes(ctx, j)
			if err == nil && broken.Swap(false) {
				payload = []byte("other bytes")
			}
			return payload, err
		})
		c.do(1)
		c.end(stop)
		leases := c.log[len(c.log)-1].Course.Leases
		if len(leases) != 2 || leases[0].Failed != "it cannot be the job's: it is none" || leases[1].Failed != "" || leases[1].Worker != Here ||
			slices.ContainsFunc(leases, func(l Lease) bool { return l.Ended.Sub(l.Begun) < time.Second }) {
			t.Errorf("leases: %+v\n%s", leases, strings.Join(c.said, "\n"))
		}
	})
}

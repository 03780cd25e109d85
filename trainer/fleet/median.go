package fleet

import (
	"slices"
	"time"
)

// mostMeasured is how many jobs the median is of.
const mostMeasured = 256

// durations are those of the jobs that were finished last.
type durations struct {
	ring   []time.Duration // in the order in which they came
	next   int
	sorted []time.Duration
}

// add forgets the oldest where there is no more room.
func (d *durations) add(x time.Duration) {
	if len(d.ring) < mostMeasured {
		d.ring = append(d.ring, x)
	} else {
		at, _ := slices.BinarySearch(d.sorted, d.ring[d.next])
		d.sorted = slices.Delete(d.sorted, at, at+1)
		d.ring[d.next], d.next = x, (d.next+1)%mostMeasured
	}
	at, _ := slices.BinarySearch(d.sorted, x)
	d.sorted = slices.Insert(d.sorted, at, x)
}

// median is 0 where nothing was finished.
func (d *durations) median() time.Duration {
	if len(d.sorted) == 0 {
		return 0
	}
	return d.sorted[len(d.sorted)/2]
}

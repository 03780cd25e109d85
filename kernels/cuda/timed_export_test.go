package cuda

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// Timed is how many microseconds the device takes for each of n calls of f, queued behind ahead, which keeps the device
// busy until they are all queued.
func (b *Backend) Timed(ahead func(), n int, f func(i int)) float64 {
	const op = "Timed"
	cells := make([]uintptr, 2)
	b.must(op, func() error {
		for i := range cells {
			e, err := driver.TimedEvent(b.d)
			if err != nil {
				return err
			}
			cells[i] = e
		}
		return nil
	})
	record := func(e uintptr) { b.must(op, func() error { return b.d.Record(e, b.stream) }) }
	ahead()
	record(cells[0])
	for i := range n {
		f(i)
	}
	record(cells[1])
	b.Sync()
	var us float64
	b.must(op, func() error {
		bits, err := driver.Elapsed(b.d, cells[0], cells[1])
		us = float64(math.Float32frombits(bits)) * 1e3 / float64(n)
		b.d.EndEvent(cells[0])
		b.d.EndEvent(cells[1])
		return err
	})
	return us
}

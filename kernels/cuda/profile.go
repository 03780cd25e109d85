package cuda

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
)

// A profile is the device's time by kernel, where DARKROOM_CUDA says times: an event before each launch and one behind
// it. Launches are then apart, since an event between two keeps the second from starting beside the end of the first.
type profile struct {
	spans []span    // launches that have not been read
	free  []uintptr // events
	sums  map[string]KernelTime
	first time.Time
}

// A span is the events around a launch.
type span struct {
	kernel     string
	begin, end uintptr
}

// A KernelTime is what the launches of a kernel took.
type KernelTime struct {
	Kernel   string
	Launches int
	Time     time.Duration
}

// mostSpans is how many launches may wait to be read.
const mostSpans = 1024

// timed calls launch, which queues a kernel, between two events.
func (b *Backend) timed(kernel string, launch func() error) error {
	p := b.profile
	if p == nil {
		return launch()
	}
	if len(p.spans) == mostSpans {
		if err := b.readSpans(); err != nil {
			return err
		}
	}
	s := span{kernel: kernel}
	for _, e := range []*uintptr{&s.begin, &s.end} {
		if n := len(p.free); n > 0 {
			*e, p.free = p.free[n-1], p.free[:n-1]
			continue
		}
		made, err := driver.TimedEvent(b.d)
		if err != nil {
			return err
		}
		*e = made
	}
	if err := b.d.Record(s.begin, b.stream); err != nil {
		return err
	}
	if err := launch(); err != nil {
		return err
	}
	p.spans = append(p.spans, s)
	return b.d.Record(s.end, b.stream)
}

// readSpans adds up what has been queued, once it has run.
func (b *Backend) readSpans() error {
	p := b.profile
	if err := b.d.Wait(b.stream); err != nil {
		return err
	}
	for _, s := range p.spans {
		bits, err := driver.Elapsed(b.d, s.begin, s.end)
		if err != nil {
			return err
		}
		sum := p.sums[s.kernel]
		sum.Kernel, sum.Launches = s.kernel, sum.Launches+1
		sum.Time += time.Duration(float64(math.Float32frombits(bits)) * float64(time.Millisecond))
		p.sums[s.kernel] = sum
		p.free = append(p.free, s.begin, s.end)
	}
	p.spans = p.spans[:0]
	return nil
}

// KernelTimes are the kernels that ran since Open, the longest first; none where DARKROOM_CUDA does not say times.
// The error is that of a device that was lost.
func (b *Backend) KernelTimes() (all []KernelTime, err error) {
	if b.profile == nil {
		return nil, nil
	}
	defer func() {
		if lost, ok := recover().(*Error); ok {
			err = lost
		}
	}()
	b.must("KernelTimes", b.readSpans)
	for _, t := range b.profile.sums {
		all = append(all, t)
	}
	slices.SortFunc(all, func(x, y KernelTime) int { return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.Kernel, y.Kernel)) })
	return all, nil
}

// WriteKernelTimes writes them as a table, with the device's share of the time since Open.
func (b *Backend) WriteKernelTimes(w io.Writer) {
	all, err := b.KernelTimes()
	if err != nil {
		fmt.Fprintln(w, "times of kernels:", err)
	}
	if len(all) == 0 {
		return
	}
	var busy time.Duration
	launches := 0
	for _, t := range all {
		busy, launches = busy+t.Time, launches+t.Launches
	}
	since := time.Since(b.profile.first)
	fmt.Fprintf(w, "cuda:%d: kernels took %.3f s of %.3f s (%.1f %%) in %d launches\n", b.device.Index, busy.Seconds(), since.Seconds(), 100*busy.Seconds()/since.Seconds(), launches)
	for _, t := range all {
		fmt.Fprintf(w, "%10.3f ms %5.1f %% %8d x %9.1f us  %s\n", 1e3*t.Time.Seconds(), 100*t.Time.Seconds()/busy.Seconds(), t.Launches, 1e6*t.Time.Seconds()/float64(t.Launches), t.Kernel)
	}
}

// endProfile gives its events back.
func (b *Backend) endProfile() (err error) {
	if b.profile == nil {
		return nil
	}
	for _, s := range b.profile.spans {
		b.profile.free = append(b.profile.free, s.begin, s.end)
	}
	for _, e := range b.profile.free {
		err = cmp.Or(err, b.d.EndEvent(e))
	}
	b.profile = nil
	return err
}

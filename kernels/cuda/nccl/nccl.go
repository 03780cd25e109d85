package nccl

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
)

// LibraryVariable names a libnccl to open in place of the system's. A file that is not there turns NCCL off.
const LibraryVariable = "DARKROOM_LIBNCCL"

// places are where NCCL is installed: the loader's own search, distributions, toolkits, active environments of Python.
func places() []string {
	const name = "libnccl.so.2"
	all := []string{
		name,
		"/usr/lib/x86_64-linux-gnu/" + name,
		"/usr/lib/aarch64-linux-gnu/" + name,
		"/usr/lib64/" + name,
		"/usr/local/lib/" + name,
		"/usr/local/cuda/lib64/" + name,
	}
	return append(all, driver.InEnvironments("nvidia/nccl/lib/"+name, name)...)
}

// openLibrary opens libnccl.
func openLibrary() (*driver.Library, error) {
	return driver.OpenNamed(LibraryVariable, "NCCL", places())
}

// Wire is an exchange.Wire over NCCL.
type Wire struct {
	lib     *driver.Library
	aborts  []*driver.Library // of the threads that abort, a rank each: lib may be another thread's then
	version int
	ranks   []Rank
	cells   *cells
	limit   time.Duration
	why     error // it was aborted
}

// A Rank is a backend on one device.
type Rank interface {
	Name() string
	Device() driver.Device
	Stream() uintptr              // on which its work is queued
	Idle() (done bool, err error) // everything that was queued is done; it does not wait
}

// cells are what NCCL reads and writes, on the heap, where nothing moves.
type cells struct {
	comms   []uintptr
	devices []int32
	value   int32
}

var _ exchange.Wire = (*Wire)(nil)

// mostAborting is how long aborting may take.
const mostAborting = 30 * time.Second

// NCCL's own numbers.
const (
	typeBytes    = 0 // the type: ncclInt8
	unhandled    = 1 // a call of CUDA failed
	system       = 2
	usage        = 5
	remote       = 6
	inProgress   = 7
	firstDecimal = 10000 // versions from 2.9 on are written with five digits
)

// Join joins backends on different devices; rank 0 is the first. Nothing waits for a rank longer than
// the limit; 0 is exchange.UsualLimit.
func Join[R Rank](limit time.Duration, ranks ...R) (*Wire, error) {
	if len(ranks) < 2 {
		return nil, errors.New("NCCL joins several devices, and there is one")
	}
	return join(limit, ranks...)
}

// Alone joins a device with itself: a trial of the library's binding where there is one device.
func Alone[R Rank](limit time.Duration, b R) (*Wire, error) { return join(limit, b) }

func join[R Rank](limit time.Duration, ranks ...R) (*Wire, error) {
	c := &cells{comms: make([]uintptr, len(ranks))}
	for _, b := range ranks {
		c.devices = append(c.devices, int32(b.Device().Index))
	}
	for i, d := range c.devices {
		if slices.Contains(c.devices[:i], d) {
			return nil, fmt.Errorf("NCCL joins different devices, and cuda:%d is there twice", d)
		}
	}
	n := &Wire{cells: c, limit: cmp.Or(limit, exchange.UsualLimit)}
	for _, b := range ranks {
		n.ranks = append(n.ranks, b)
	}
	var err error
	if n.lib, err = openLibrary(); err != nil {
		return nil, err
	}
	for range ranks {
		l, err := openLibrary()
		if err == nil {
			err = l.Find("ncclCommAbort") // since 2.4
		}
		if err != nil {
			return nil, err
		}
		n.aborts = append(n.aborts, l)
	}
	err = n.within("joining", func() error {
		if err := n.do("ncclGetVersion", uintptr(unsafe.Pointer(&c.value))); err != nil {
			return err
		}
		n.version = int(c.value)
		return n.do("ncclCommInitAll", uintptr(unsafe.Pointer(&c.comms[0])), uintptr(len(ranks)), uintptr(unsafe.Pointer(&c.devices[0])))
	})
	if err != nil {
		return nil, fmt.Errorf("joining %d devices: %w", len(ranks), err)
	}
	return n, nil
}

// within makes calls on a thread of their own, which is left behind where they hang.
func (n *Wire) within(what string, calls func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		done <- calls()
	}()
	timer := time.NewTimer(n.limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("%s: NCCL has not come back within %v", what, n.limit)
	}
}

// Gather is Wire's. An error that a device or NCCL had is the last: everything is aborted then.
func (n *Wire) Gather(from, into []kernels.Span) error {
	if n.why != nil {
		return fmt.Errorf("nothing is gathered any more: %w", n.why)
	}
	if err := exchange.Check(len(n.ranks), from, into); err != nil {
		return err
	}
	if from[0].Empty() {
		return nil
	}
	if err := n.within("gathering", func() error { return n.gather(from, into) }); err != nil {
		return errors.Join(err, n.Abort(err))
	}
	return nil
}

func (n *Wire) gather(from, into []kernels.Span) error {
	if err := n.do("ncclGroupStart"); err != nil {
		return err
	}
	bytes := from[0].Len * from[0].DType.Size()
	var err error
	for r, b := range n.ranks {
		err = cmp.Or(err, n.of(r, n.do("ncclAllGather", address(from[r]), address(into[r]), uintptr(bytes), typeBytes, n.cells.comms[r], b.Stream())))
	}
	if err = cmp.Or(err, n.do("ncclGroupEnd")); err != nil {
		return err
	}
	return n.failed()
}

// address is a span's on its device.
func address(s kernels.Span) uintptr { return s.Buf.Addr + uintptr(s.Off*s.DType.Size()) }

// failed is what went wrong since: NCCL works on while the program goes on.
func (n *Wire) failed() error {
	for r := range n.ranks {
		if err := n.do("ncclCommGetAsyncError", n.cells.comms[r], uintptr(unsafe.Pointer(&n.cells.value))); err != nil {
			return n.of(r, err)
		}
		if code := n.cells.value; code != 0 && code != inProgress {
			return n.of(r, n.failure("what was gathered before", code))
		}
	}
	return nil
}

// Wait is Wire's: it asks, since a stream that waits for a lost rank would never come back.
func (n *Wire) Wait() error {
	if n.why != nil {
		return n.why
	}
	err := n.wait()
	if err != nil {
		err = errors.Join(err, n.Abort(err))
	}
	return err
}

func (n *Wire) wait() error {
	const least, most = 20 * time.Microsecond, 5 * time.Millisecond
	until := time.Now().Add(n.limit)
	for pause := least; ; pause = min(2*pause, most) {
		late := -1
		for r, b := range n.ranks { // devices first: where one is lost, the others' communicators say less
			done, err := b.Idle()
			if err != nil {
				return n.of(r, err)
			}
			if !done && late < 0 {
				late = r
			}
		}
		if late < 0 {
			return nil
		}
		if err := n.failed(); err != nil {
			return err
		}
		if time.Now().After(until) {
			return n.of(late, fmt.Errorf("what all ranks gather has not come within %v: a rank, or what connects it, is stuck", n.limit))
		}
		time.Sleep(pause)
	}
}

// Abort is Wire's.
func (n *Wire) Abort(why error) error {
	if n.why != nil {
		return nil
	}
	n.why = why
	team := exchange.Team{Limit: min(n.limit, mostAborting)}
	for _, b := range n.ranks {
		team.Devices = append(team.Devices, b.Name())
	}
	return team.Together(len(n.ranks), "ncclCommAbort", func(r int) error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		code, err := n.aborts[r].Call("ncclCommAbort", n.cells.comms[r])
		if err == nil && code != 0 && code != inProgress {
			err = &driver.CallError{Call: "ncclCommAbort", Code: code}
		}
		return err
	})
}

func (n *Wire) of(rank int, err error) error {
	if err == nil {
		return nil
	}
	return &exchange.Failure{Rank: rank, Device: n.ranks[rank].Name(), Err: err}
}

// Close leaves the devices, after what is queued on them. It comes before the backends' own end.
func (n *Wire) Close() error {
	if n.why != nil {
		return nil
	}
	if err := n.Wait(); err != nil {
		return err
	}
	n.why = errors.New("it was closed")
	return n.within("leaving", func() (err error) {
		for r := range n.ranks {
			err = cmp.Or(err, n.of(r, n.do("ncclCommDestroy", n.cells.comms[r])))
		}
		return err
	})
}

func (n *Wire) String() string {
	return fmt.Sprintf("%d ranks, over NCCL %s", len(n.ranks), n.Version())
}

// Version is the library's: "2.21.5".
func (n *Wire) Version() string {
	if v := n.version; v < firstDecimal { // 2.8 and before
		return fmt.Sprintf("%d.%d.%d", v/1000, v%1000/100, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", n.version/10000, n.version%10000/100, n.version%100)
}

// do calls, and turns a code into an error.
func (n *Wire) do(name string, args ...uintptr) error {
	code, err := n.lib.Call(name, args...)
	if err == nil && code != 0 && code != inProgress {
		err = n.failure(name, code)
	}
	return err
}

// failure is a code with NCCL's words for it, and what its last trouble was.
func (n *Wire) failure(name string, code int32) error {
	e := &driver.CallError{Call: name, Code: code}
	if p, err := n.lib.Pointer("ncclGetErrorString", uintptr(code)); err == nil {
		e.Name = driver.CString(p)
	}
	var err error = e
	if p, missing := n.lib.Pointer("ncclGetLastError", 0); missing == nil { // not there before 2.13
		if trouble := driver.CString(p); trouble != "" {
			err = fmt.Errorf("%w: %s", err, trouble)
		}
	}
	if note := explain(code); note != "" {
		err = fmt.Errorf("%w: %s", err, note)
	}
	return err
}

// explain is what a code means for someone who runs a program.
func explain(code int32) string {
	switch code {
	case unhandled, system:
		return "NCCL_DEBUG=WARN says more; " + LibraryVariable + "=off goes through host memory"
	case usage:
		return "the devices cannot be joined as they were asked to be"
	case remote:
		return "another rank is lost, and the program must be started again"
	}
	return ""
}

package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
)

// NCCL carries pieces between devices of one program: libnccl.so.2, opened at run time. It only
// gathers, which has no arithmetic, so no bit depends on its version, its rings or the wires. It works
// on the backends' own streams and in their primary contexts, which its runtime shares: a gathering is
// done in order with what is queued before and after it.
//
// All calls of a gathering come from one thread, so calls for several devices stand in groups: alone, the
// first would wait for the others.
//
// A rank that fails would leave the others' streams waiting for it for ever. So what was gathered is waited
// for by asking (Wait): each device, whether it is done or lost, and each communicator, whether something
// failed; a device that is lost, an error, or the limit, end all communicators (ncclCommAbort), after which
// the streams run on with what they have. NCCL's own calls may hang, too, and so they are made on threads
// that can be left behind; all ranks abort at once, since recent versions wait for one another there
// (NVIDIA/nccl issues 863 and 1013).

// NCCLVariable names a libnccl to open in place of the system's. A file that is not there turns NCCL off.
const NCCLVariable = "DARKROOM_LIBNCCL"

// NCCL is an exchange.Wire over NCCL.
type NCCL struct {
	lib     *library
	aborts  []*library // of the threads that abort, a rank each: lib may be another thread's then
	version int
	ranks   []*Backend
	cells   *ncclCells
	limit   time.Duration
	why     error // it was aborted
}

// ncclCells are what NCCL reads and writes, on the heap, where nothing moves.
type ncclCells struct {
	comms   []uintptr
	devices []int32
	value   int32
}

var _ exchange.Wire = (*NCCL)(nil)

// mostAborting is how long aborting may take.
const mostAborting = 30 * time.Second

// NCCL's own numbers.
const (
	ncclBytes        = 0 // the type: ncclInt8
	ncclUnhandled    = 1 // a call of CUDA failed
	ncclSystem       = 2
	ncclUsage        = 5
	ncclRemote       = 6
	ncclInProgress   = 7
	ncclFirstDecimal = 10000 // versions from 2.9 on are written with five digits
)

// JoinNCCL joins backends on different devices; rank 0 is the first. Nothing waits for a rank longer than
// the limit; 0 is exchange.UsualLimit.
func JoinNCCL(limit time.Duration, ranks ...*Backend) (*NCCL, error) {
	c := &ncclCells{comms: make([]uintptr, len(ranks))}
	for _, b := range ranks {
		c.devices = append(c.devices, int32(b.device.Index))
	}
	if len(ranks) < 2 {
		return nil, errors.New("NCCL joins several devices, and there is one")
	}
	for i, d := range c.devices {
		if slices.Contains(c.devices[:i], d) {
			return nil, fmt.Errorf("NCCL joins different devices, and cuda:%d is there twice", d)
		}
	}
	n := &NCCL{ranks: ranks, cells: c, limit: cmp.Or(limit, exchange.UsualLimit)}
	var err error
	if n.lib, err = openNCCL(); err != nil {
		return nil, err
	}
	for range ranks {
		l, err := openNCCL()
		if err == nil {
			err = l.find("ncclCommAbort") // since 2.4
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
func (n *NCCL) within(what string, calls func() error) error {
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
func (n *NCCL) Gather(from, into []kernels.Span) error {
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

func (n *NCCL) gather(from, into []kernels.Span) error {
	if err := n.do("ncclGroupStart"); err != nil {
		return err
	}
	bytes := from[0].Len * from[0].DType.Size()
	var err error
	for r, b := range n.ranks {
		err = first(err, n.of(r, n.do("ncclAllGather", at(from[r]), at(into[r]), uintptr(bytes), ncclBytes, n.cells.comms[r], b.stream)))
	}
	if err = first(err, n.do("ncclGroupEnd")); err != nil {
		return err
	}
	return n.failed()
}

// failed is what went wrong since: NCCL works on while the program goes on.
func (n *NCCL) failed() error {
	for r := range n.ranks {
		if err := n.do("ncclCommGetAsyncError", n.cells.comms[r], uintptr(unsafe.Pointer(&n.cells.value))); err != nil {
			return n.of(r, err)
		}
		if code := n.cells.value; code != 0 && code != ncclInProgress {
			return n.of(r, n.failure("what was gathered before", code))
		}
	}
	return nil
}

// Wait is Wire's: it asks, since a stream that waits for a lost rank would never come back.
func (n *NCCL) Wait() error {
	if n.why != nil {
		return n.why
	}
	err := n.wait()
	if err != nil {
		err = errors.Join(err, n.Abort(err))
	}
	return err
}

func (n *NCCL) wait() error {
	const least, most = 20 * time.Microsecond, 5 * time.Millisecond
	until := time.Now().Add(n.limit)
	for pause := least; ; pause = min(2*pause, most) {
		late := -1
		for r, b := range n.ranks { // devices first: where one is lost, the others' communicators say less
			done, err := b.idle()
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
func (n *NCCL) Abort(why error) error {
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
		code, err := n.aborts[r].call("ncclCommAbort", n.cells.comms[r])
		if err == nil && code != 0 && code != ncclInProgress {
			err = &callError{Call: "ncclCommAbort", Code: code}
		}
		return err
	})
}

func (n *NCCL) of(rank int, err error) error {
	if err == nil {
		return nil
	}
	return &exchange.Failure{Rank: rank, Device: n.ranks[rank].Name(), Err: err}
}

// Close leaves the devices, after what is queued on them. It comes before the backends' own end.
func (n *NCCL) Close() error {
	if n.why != nil {
		return nil
	}
	if err := n.Wait(); err != nil {
		return err
	}
	n.why = errors.New("it was closed")
	return n.within("leaving", func() (err error) {
		for r := range n.ranks {
			err = first(err, n.of(r, n.do("ncclCommDestroy", n.cells.comms[r])))
		}
		return err
	})
}

func (n *NCCL) String() string {
	return fmt.Sprintf("%d ranks, over NCCL %s", len(n.ranks), n.Version())
}

// Version is the library's: "2.21.5".
func (n *NCCL) Version() string {
	if v := n.version; v < ncclFirstDecimal { // 2.8 and before
		return fmt.Sprintf("%d.%d.%d", v/1000, v%1000/100, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", n.version/10000, n.version%10000/100, n.version%100)
}

// do calls, and turns a code into an error.
func (n *NCCL) do(name string, args ...uintptr) error {
	code, err := n.lib.call(name, args...)
	if err == nil && code != 0 && code != ncclInProgress {
		err = n.failure(name, code)
	}
	return err
}

// failure is a code with NCCL's words for it, and what its last trouble was.
func (n *NCCL) failure(name string, code int32) error {
	e := &callError{Call: name, Code: code}
	if p, err := n.lib.pointer("ncclGetErrorString", uintptr(code)); err == nil {
		e.Name = cString(p)
	}
	var err error = e
	if p, missing := n.lib.pointer("ncclGetLastError", 0); missing == nil { // not there before 2.13
		if trouble := cString(p); trouble != "" {
			err = fmt.Errorf("%w: %s", err, trouble)
		}
	}
	if note := explainNCCL(code); note != "" {
		err = fmt.Errorf("%w: %s", err, note)
	}
	return err
}

// explainNCCL is what a code means for someone who runs a program.
func explainNCCL(code int32) string {
	switch code {
	case ncclUnhandled, ncclSystem:
		return "NCCL_DEBUG=WARN says more; " + NCCLVariable + "=off goes through host memory"
	case ncclUsage:
		return "the devices cannot be joined as they were asked to be"
	case ncclRemote:
		return "another rank is lost, and the program must be started again"
	}
	return ""
}

package nn

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Where frozen matrices lie between products (Options.Home). Vectors, tables and trained parameters stay on the device.
//
// Invariant (tests): outputs, gradients and runs have the bytes of networks that keep their weights on the device.

// Home is where frozen matrices lie while no product reads them.
type Home uint8

// The homes.
const (
	Device Home = iota // in the form that products read
	Disk               // in their file, from which a ring reads them ahead
)

func (h Home) String() string { return [...]string{"device", "disk"}[h] }

// MarshalText is for documents.
func (h Home) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// HomeNamed is a home by its name.
func HomeNamed(name string) (Home, bool) {
	for h := Device; h <= Disk; h++ {
		if h.String() == name {
			return h, true
		}
	}
	return Device, false
}

// away is a frozen matrix whose home is elsewhere.
func (r *root) away(e *entry, k kind, conv kernels.ConvShape, shape []int) *autograd.Param {
	d := &onDisk{root: r, e: e, k: k, conv: conv, stored: shape}
	if k == turned {
		e.turned = true
		shape = []int{shape[1], shape[0]}
	}
	return autograd.NewStreamed(e.name, shape, conv, r.Pool, r.Ring, d)
}

// onDisk is a matrix that lies in its file.
type onDisk struct {
	root   *root
	e      *entry
	k      kind
	conv   kernels.ConvShape
	stored []int // the shape that is uploaded
	coming *reading
	room   *kernels.Buffer // of a dry backend: memory of a tensor that is read ahead
}

// reading is a tensor on its way into the host's memory.
type reading struct {
	stopped atomic.Bool
	done    chan struct{}
	tensor  safetensors.Tensor
	err     error
}

// mostReadings is how many matrices of a network are read at once.
const mostReadings = 2

// Ahead reads the matrix on another goroutine.
func (d *onDisk) Ahead() {
	if d.root.Pool.Dry() {
		d.room = d.root.Pool.Backend().Alloc(2 * product(d.stored))
		return
	}
	c := &reading{done: make(chan struct{})}
	d.coming = c
	go func() {
		defer close(c.done)
		d.root.reads <- struct{}{}
		defer func() { <-d.root.reads }()
		if !c.stopped.Load() {
			c.tensor, c.err = d.read()
		}
	}()
}

// Forget waits for a read that is under way: its file may be closed then.
func (d *onDisk) Forget() {
	d.free()
	if d.coming != nil {
		d.coming.stopped.Store(true)
		<-d.coming.done
		d.coming = nil
	}
}

// free gives a dry backend's memory back.
func (d *onDisk) free() {
	if d.room != nil {
		d.root.Pool.Backend().Free(d.room)
		d.room = nil
	}
}

// Take packs the tensor.
func (d *onDisk) Take() (w *kernels.Packed) {
	var err error
	var src safetensors.Tensor
	if c := d.coming; c != nil {
		<-c.done
		d.coming = nil
		src, err = c.tensor, c.err
	} else {
		src, err = d.read()
	}
	if err == nil {
		err = d.whole(func() (err error) {
			w, err = d.pack(src)
			return err
		})
	}
	d.free()
	if err != nil {
		panic(unread{err})
	}
	return w
}

// pack is the form that products read.
func (d *onDisk) pack(src safetensors.Tensor) (*kernels.Packed, error) {
	r := *d.root // with a pool that keeps nothing
	r.Pool = tensor.NewPool(r.Pool.Backend())
	defer r.Pool.Trim()
	t, err := r.upload(src, d.stored, d.conv, false)
	if err != nil {
		return nil, err
	}
	if d.k == turned {
		u := r.transposed(t)
		t.Free()
		t = u
	}
	defer t.Free()
	return r.pack(t, d.conv), nil
}

// Give frees the packed form.
func (d *onDisk) Give(w *kernels.Packed) { d.root.Pool.Backend().Free(w.Buf) }

// Bytes is the size of the packed form, in the model's arithmetic.
func (d *onDisk) Bytes() int {
	size := kernels.BF16.Size()
	if d.root.Math == kernels.MathF32 {
		size = kernels.F32.Size()
	}
	return size * product(d.stored)
}

// read brings the tensor into the host's memory. Of a mapped file every page is touched: whoever uploads it does not
// wait for the disk.
func (d *onDisk) read() (t safetensors.Tensor, err error) {
	e := *d.e // whose shape a read may change
	err = d.whole(func() error {
		of := &e
		if e.of != nil {
			whole := *e.of
			of = &whole
		}
		if t, err = d.root.read(of); err != nil {
			return err
		}
		if i := slices.IndexFunc(d.parts(), func(p *entry) bool { return p == d.e }); i >= 0 {
			each := len(t.Data) / len(d.parts())
			t.Shape, t.Data = e.stored, t.Data[i*each:(i+1)*each]
		}
		touch(t.Data)
		return nil
	})
	return t, err
}

// parts are those of the stored tensor that the matrix is one of.
func (d *onDisk) parts() []*entry {
	if d.e.of == nil {
		return nil
	}
	return d.e.of.parts
}

// page is the smallest of a system's.
const page = 4096

// touch reads a byte of every page.
func touch(data []byte) (sum byte) {
	for i := 0; i < len(data); i += page {
		sum += data[i]
	}
	return sum
}

// whole names the tensor of a read that failed. A mapped file that is cut, or whose disk is gone, fails where its
// memory is touched.
func (d *onDisk) whole(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch failure := recover().(type) {
		case nil:
			if err != nil {
				err = fmt.Errorf("reading %s once more%s: %w\n%s", d.e.name, d.place(), err, hintAgain)
			}
		case interface {
			error
			Addr() uintptr
		}:
			err = fmt.Errorf("reading %s once more%s: the file is no longer whole, or its disk is gone (%w)\n%s", d.e.name, d.place(), failure, hintAgain)
		default:
			panic(failure)
		}
	}()
	return read()
}

const hintAgain = "hint: fetch or copy the model's folder again; a run goes on with --resume from its last checkpoint"

// place is where the tensor lies, as far as its source says.
func (d *onDisk) place() string {
	if at, ok := d.root.Source.(interface{ Where(name string) string }); ok {
		if where := at.Where(d.e.asStored()); where != "" {
			return " (" + where + ")"
		}
	}
	return ""
}

// unread is a kernels.DeviceError: a product could not be computed, since its weight cannot be read any more.
type unread struct{ error }

// OnDevice says where the weight was to come from.
func (unread) OnDevice() string { return "disk" }

func (u unread) Unwrap() error { return u.error }

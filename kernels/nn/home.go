package nn

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
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
	Host               // in the host's memory, from which they are copied ahead
	Ranks              // in the memory of the run's devices, each of which has a share
	Disk               // in their file, from which a ring reads them ahead
)

func (h Home) String() string { return [...]string{"device", "host", "ranks", "disk"}[h] }

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

// away is a frozen matrix whose home is elsewhere, or that is compressed.
func (r *root) away(e *entry, k kind, conv kernels.ConvShape, shape []int) (*autograd.Param, error) {
	d := &away{root: r, e: e, k: k, conv: conv, stored: shape}
	if k == turned {
		e.turned = true
		shape = []int{shape[1], shape[0]}
	}
	switch r.Home {
	case Host, Ranks:
		return r.Stock.param(d, shape)
	case Device:
		if err := d.keep(); err != nil {
			return nil, err
		}
	}
	return autograd.NewStreamed(e.name, shape, conv, r.Pool, r.Ring, d), nil
}

// An away matrix lies in its file, or as codes in the device's memory.
type away struct {
	root   *root
	e      *entry
	k      kind
	conv   kernels.ConvShape
	stored []int // the shape that is uploaded
	kept   *coded
	coming *reading
	room   *kernels.Buffer // of a dry backend: memory of a tensor that is read ahead
}

// coded is a compressed matrix in a device's memory, and how it is unpacked.
type coded struct {
	memory *tensor.Tensor
	op     kernels.Unpack
	dtype  safetensors.DType // of the values
}

func (c *coded) free() { c.memory.Free() }

// reading is a tensor on its way into the host's memory.
type reading struct {
	stopped atomic.Bool
	done    chan struct{}
	inHost
	err error
}

// inHost is a tensor in the host's memory: its numbers, or its codes.
type inHost struct {
	plain safetensors.Tensor
	codes *quant.Codes
	dtype safetensors.DType // of values that codes stand for
}

// keep brings the codes of a compressed matrix into the device's memory.
func (d *away) keep() error {
	if d.root.Pool.Dry() {
		h, _, err := d.root.header(d.e)
		if err != nil {
			return err
		}
		d.kept = &coded{memory: d.root.Pool.Lasting(kernels.U8, h.Size), dtype: h.DType}
		d.kept.op.Codes.DType = kernels.U8
		return nil
	}
	src, err := d.read()
	if err != nil {
		return err
	}
	if src.codes == nil { // parts of a block: their numbers are read whenever products need them
		return nil
	}
	d.kept = d.root.uploadCodes(src, d.root.Pool.Lasting)
	d.drop()
	return nil
}

// uploadCodes brings codes into memory of a pool.
func (r *root) uploadCodes(src inHost, take func(d kernels.DType, shape ...int) *tensor.Tensor) *coded {
	c := &coded{memory: take(kernels.U8, src.codes.Size()), dtype: src.dtype}
	if span := c.memory.Span(); span.Buf.Host != nil {
		src.codes.Write(span.Raw())
	} else {
		blob := make([]byte, src.codes.Size())
		src.codes.Write(blob)
		c.memory.UploadBytes(blob)
	}
	c.op = *src.codes.In(c.memory.Span().Buf, c.memory.Span().Off, kernels.Mat{})
	return c
}

// drop gives pages of the tensor's file back.
func (d *away) drop() {
	if s, ok := d.root.Source.(interface{ Drop(string) }); ok {
		s.Drop(d.e.asStored())
	}
}

// mostReadings is how many matrices of a network are read at once.
const mostReadings = 2

// Ahead reads the matrix on another goroutine.
func (d *away) Ahead() bool {
	if d.kept != nil {
		return true
	}
	if d.root.Pool.Dry() {
		d.room = d.root.Pool.Backend().Alloc(2 * product(d.stored))
		return true
	}
	c := &reading{done: make(chan struct{})}
	d.coming = c
	go func() {
		defer close(c.done)
		d.root.reads <- struct{}{}
		defer func() { <-d.root.reads }()
		if !c.stopped.Load() {
			c.inHost, c.err = d.read()
		}
	}()
	return true
}

// Forget waits for a read that is under way: its file may be closed then.
func (d *away) Forget() {
	d.free()
	if d.coming != nil {
		d.coming.stopped.Store(true)
		<-d.coming.done
		d.coming = nil
	}
}

// free gives a dry backend's memory back.
func (d *away) free() {
	if d.room != nil {
		d.root.Pool.Backend().Free(d.room)
		d.room = nil
	}
}

// Close frees codes that are kept, and memory that waits for weights like this one.
func (d *away) Close() {
	d.root.Pool.DropKept()
	if d.kept != nil {
		d.kept.free()
		d.kept = nil
	}
}

// Take packs the tensor.
func (d *away) Take() (w *kernels.Packed) {
	var err error
	var src inHost
	switch c := d.coming; {
	case d.kept != nil:
	case c != nil:
		<-c.done
		d.coming = nil
		if src, err = c.inHost, c.err; err != nil { // of a disk that may be back
			src, err = d.read()
		}
	default:
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
func (d *away) pack(src inHost) (w *kernels.Packed, err error) {
	r := d.root
	var t *tensor.Tensor
	switch {
	case d.kept != nil && d.straight(d.kept):
		return d.packCodes(d.kept), nil
	case d.kept != nil:
		t = r.unpack(d.kept, d.stored, d.conv)
	case src.codes != nil:
		c := r.uploadCodes(src, r.Pool.New)
		if d.straight(c) {
			w = d.packCodes(c)
		} else {
			t = r.unpack(c, d.stored, d.conv)
		}
		c.free()
		d.drop()
		if w != nil {
			return w, nil
		}
	default:
		if t, err = r.upload(src.plain, d.stored, d.conv, false); err != nil {
			return nil, err
		}
	}
	if d.k == turned {
		u := r.transposed(t)
		t.Free()
		t = u
	}
	defer t.Free()
	return r.pack(t, d.conv), nil
}

// straight reports whether the backend packs codes as they are: other values are rounded once more, or change places.
func (d *away) straight(c *coded) bool {
	from, to := d.root.types(c)
	return from == to && d.plain() && d.root.Pool.Repacks()
}

// packCodes is the packed form of codes.
func (d *away) packCodes(c *coded) *kernels.Packed {
	op, rows := c.op, d.stored[0]
	from, _ := d.root.types(c)
	op.Dst = kernels.Mat{Span: kernels.Span{DType: from}, Rows: rows, Cols: product(d.stored) / rows}
	op.Dst.Stride = op.Dst.Cols
	return d.root.Pool.PackCodes(&op, d.root.Math)
}

// types are those of values that codes stand for, and of the numbers that upload would make of them.
func (r *root) types(c *coded) (from, to kernels.DType) {
	from, to = kernels.F32, kernels.F32
	if c.dtype == safetensors.BF16 || c.dtype == safetensors.F16 && r.Math == kernels.MathBF16 {
		to = kernels.BF16
	}
	switch c.dtype {
	case safetensors.BF16:
		from = kernels.BF16
	case safetensors.F16:
		from = kernels.F16
	}
	return from, to
}

// unpack is a compressed matrix in full, in the type that upload would give its numbers.
func (r *root) unpack(c *coded, shape []int, conv kernels.ConvShape) *tensor.Tensor {
	from, to := r.types(c)
	t := r.Pool.New(from, shape...)
	op := c.op
	rows := shape[0]
	if conv.KH > 0 {
		rows = conv.Out
	}
	op.Dst = kernels.NewMat(t.Span(), rows, t.Len()/rows)
	r.Pool.Backend().Unpack(&op)
	if from != to {
		u := r.Pool.New(to, shape...)
		n := t.Len()
		r.Pool.Backend().Copy(&kernels.Copy{Src: t.Span(), Dst: u.Span(), Shape: [5]int{1, 1, 1, 1, n}, SrcStride: [5]int{0, 0, 0, n, 1}, DstStride: [5]int{0, 0, 0, n, 1}})
		t.Free()
		t = u
	}
	if conv.KH*conv.KW > 1 {
		defer t.Free()
		return turn(t, r.Pool.New(to, shape...), conv, 1, false)
	}
	return t
}

// Give leaves the memory of the packed form to the next one of its shape.
func (d *away) Give(w *kernels.Packed) { d.root.Pool.Keep(w) }

// Bytes is the size of the packed form, in the model's arithmetic.
func (d *away) Bytes() int {
	size := kernels.BF16.Size()
	if d.root.Math == kernels.MathF32 {
		size = kernels.F32.Size()
	}
	return size * product(d.stored)
}

// read brings the tensor into the host's memory. Of a mapped file every page is touched, so that no upload waits for
// the disk.
func (d *away) read() (src inHost, err error) {
	e := *d.e // whose shape a read may change
	err = d.whole(func() error {
		if at, ok := d.root.Source.(quant.Coded); ok && e.of == nil {
			c, dtype, compressed, err := at.Codes(e.name)
			if err != nil {
				return err
			}
			if compressed {
				touch(c.Codes)
				src.codes, src.dtype = &c, dtype
				return nil
			}
		}
		of := &e
		if e.of != nil {
			whole := *e.of
			of = &whole
		}
		t, err := d.root.read(of)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(d.parts(), func(p *entry) bool { return p == d.e }); i >= 0 {
			each := len(t.Data) / len(d.parts())
			t.Shape, t.Data = e.stored, t.Data[i*each:(i+1)*each]
		}
		touch(t.Data)
		src.plain = t
		return nil
	})
	return src, err
}

// header is a compressed tensor's; it is not ok of one that is not compressed, or that is drawn.
func (r *root) header(e *entry) (h quant.Header, ok bool, err error) {
	if r.Source == nil && r.Compressed != nil && r.Pool.Dry() {
		h, ok = r.Compressed(safetensors.Info{Name: e.name, DType: r.Like, Shape: e.stored, Bytes: int64(product(e.stored))})
		return h, ok, nil
	}
	at, coded := r.Source.(quant.Coded)
	if !coded || !r.has[e.name] || r.begins(e) {
		return h, false, nil
	}
	return at.Header(e.name)
}

// parts are those of the stored tensor that the matrix is one of.
func (d *away) parts() []*entry {
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

// A fault is the panic of a goroutine that touches memory of a mapped file that was cut, or whose disk is gone.
type fault interface {
	error
	Addr() uintptr
}

// faultless runs read, and returns a fault of the memory that it touches as an error.
func faultless(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case fault:
			err = fmt.Errorf("the file is no longer whole, or its disk is gone (a fault at %#x)", failure.Addr())
		default:
			panic(failure)
		}
	}()
	return read()
}

// whole names the tensor of a read that failed.
func (d *away) whole(read func() error) error {
	if err := faultless(read); err != nil {
		return fmt.Errorf("reading %s once more%s: %w\n%s", d.e.name, d.root.place(d.e), err, hintAgain)
	}
	return nil
}

const hintAgain = "hint: fetch or copy the model's folder again; a run goes on with --resume from its last checkpoint"

// place is where a tensor lies, as far as its source says.
func (r *root) place(e *entry) string {
	if at, ok := r.Source.(interface{ Where(name string) string }); ok {
		if where := at.Where(e.asStored()); where != "" {
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

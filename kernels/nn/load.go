package nn

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// How a parameter gets from storage into the form that computes. One tensor at a time is
// uploaded in the type that it is stored in (fp16 in the type of the products), packed,
// and freed again: no weight exists twice.

// kind says what a parameter is for.
type kind uint8

const (
	matrix kind = iota // the weight of a product: packed where frozen
	vector             // a bias, a norm's weight: F32
	table              // rows to look up: as stored
	turned             // a matrix that is stored as [in, out]
)

// get makes a parameter, or notes why it cannot and returns nil.
func (p *Params) get(name string, k kind, init initial, conv kernels.ConvShape, shape ...int) *autograd.Param {
	return p.getFrames(name, k, init, conv, 0, shape...)
}

// getFrames is get for a convolution whose kernel has frames, where there are more than none.
func (p *Params) getFrames(name string, k kind, init initial, conv kernels.ConvShape, frames int, shape ...int) *autograd.Param {
	var made *autograd.Param
	if err := faultless(func() error {
		made = p.make(name, k, init, conv, frames, shape...)
		return nil
	}); err != nil {
		e := &entry{name: p.name(name)}
		panic(unread{fmt.Errorf("reading %s%s: %w\n%s", e.name, p.root.place(e), err, hintAgain)})
	}
	return made
}

// make reads a parameter, and brings it into its home.
func (p *Params) make(name string, k kind, init initial, conv kernels.ConvShape, frames int, shape ...int) *autograd.Param {
	r := p.root
	packed := frames == 0 && (k == matrix || k == turned) && !r.trains(p.name(name))
	e, src := p.stored(name, packed, init, shape...)
	if e == nil {
		return nil
	}
	e.frames = frames
	var err error
	if e.param, err = r.make(e, src, k, conv, r.trains(e.name)); err != nil {
		p.fail(fmt.Errorf("%s: %w", e.name, err))
		return nil
	}
	r.order = append(r.order, e)
	return e.param
}

// stored notes that the model has a parameter, and reads it; nil, where that is a mistake. Of a frozen matrix that is
// compressed, and of any compressed tensor on a dry backend, the header is read and no number.
func (p *Params) stored(name string, packed bool, init initial, shape ...int) (*entry, safetensors.Tensor) {
	r, name := p.root, p.name(name)
	if p.zero {
		init = initial{}
	}
	if r.entries[name] != nil {
		p.fail(fmt.Errorf("%s: asked for twice", name))
		return nil, safetensors.Tensor{}
	}
	e := &entry{name: name, stored: shape, init: init}
	r.entries[name] = e
	h, compressed, err := r.header(e)
	var src safetensors.Tensor
	switch {
	case err != nil:
	case compressed && (packed || r.Pool.Dry()):
		src = safetensors.Tensor{Name: name, DType: h.DType, Shape: h.Shape}
		e.compressed = packed
		err = e.fit(src)
	default:
		src, err = r.read(e)
	}
	if err != nil {
		p.fail(err)
		return nil, src
	}
	return e, src
}

// trains reports whether a parameter is to be trained.
func (r *root) trains(name string) bool {
	return slices.ContainsFunc(r.train, func(re *regexp.Regexp) bool { return re.MatchString(name) })
}

// read is the stored tensor, or the drawn one.
func (r *root) read(e *entry) (safetensors.Tensor, error) {
	if r.begins(e) {
		return r.fresh(e)
	}
	switch {
	case !r.has[e.name] && r.mistakes >= most: // enough was said to see what is wrong
		return safetensors.Tensor{}, fmt.Errorf("%s: missing", e.name)
	case !r.has[e.name]:
		return safetensors.Tensor{}, fmt.Errorf("%s: missing%s", e.name, nearHint(e.name, r.stored))
	}
	t, err := r.Source.Tensor(e.name)
	if err != nil {
		return t, err
	}
	return t, e.fit(t)
}

// begins reports whether a parameter begins as random numbers.
func (r *root) begins(e *entry) bool {
	return r.Source == nil || slices.ContainsFunc(r.blank, func(re *regexp.Regexp) bool { return re.MatchString(e.name) })
}

// fit holds a tensor's shape against the model's.
func (e *entry) fit(t safetensors.Tensor) error {
	if !slices.Equal(t.Shape, e.stored) {
		if !slices.Equal(squeeze(t.Shape), squeeze(e.stored)) {
			return fmt.Errorf("%s: its shape is %v, the model's %v", e.name, t.Shape, e.stored)
		}
		e.stored = slices.Clone(t.Shape) // a linear layer stored as a 1x1 convolution, or the other way
	}
	return nil
}

// fresh is a tensor of random numbers.
func (r *root) fresh(e *entry) (safetensors.Tensor, error) {
	switch {
	case r.Source != nil && !r.trains(e.name):
		return safetensors.Tensor{}, fmt.Errorf("%s: it begins as random numbers, and is not trained: what is blank is trained, too", e.name)
	case r.Pool.Dry() && r.Like != 0:
		return safetensors.Tensor{Name: e.name, DType: r.Like, Shape: e.stored}, nil
	}
	return r.made(e.name, e.stored, func() []float32 { return e.init.draw(r.Key.With(rng.Purpose(e.name)), product(e.stored)) }), nil
}

// made is a tensor that no file has. A dry backend reads no values, so none are made.
func (r *root) made(name string, shape []int, values func() []float32) safetensors.Tensor {
	if r.Pool.Dry() {
		return safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: shape}
	}
	return safetensors.FromF32(name, shape, values())
}

// squeeze leaves out a convolution's trailing axes of one.
func squeeze(shape []int) []int {
	if len(shape) == 4 && shape[2] == 1 && shape[3] == 1 {
		return shape[:2]
	}
	return shape
}

// make turns a stored tensor into a parameter.
func (r *root) make(e *entry, src safetensors.Tensor, k kind, conv kernels.ConvShape, trained bool) (*autograd.Param, error) {
	shape := e.stored
	if k == matrix && conv.KH == 0 {
		shape = []int{e.stored[0], product(e.stored[1:])}
	}
	if conv.KH > 0 {
		shape = []int{conv.Out, conv.KH, conv.KW, conv.In}
	}
	if e.frames > 0 {
		shape = append([]int{e.frames}, shape...)
	}
	if t := r.Values[e.name]; t != nil && (trained || k == vector) {
		e.turned = k == turned
		w := autograd.NewParam(e.name, t.Retain(), trained)
		w.Conv = conv
		return w, nil
	}
	if (r.Home != Device || e.compressed) && !trained && !e.derived && e.frames == 0 && (k == matrix || k == turned) {
		return r.away(e, k, conv, shape)
	}
	t, err := r.upload(src, shape, conv, trained || k == vector)
	if err != nil {
		return nil, err
	}
	if k == turned {
		u := r.transposed(t)
		t.Free()
		t, k, shape, e.turned = u, matrix, u.Shape(), true
	}
	if trained || k != matrix {
		w := autograd.NewParam(e.name, t, trained)
		w.Conv = conv
		w.Products, w.Math = trained && k == matrix && e.frames == 0, r.Math
		return w, nil
	}
	defer t.Free()
	if e.frames > 0 {
		return autograd.NewPackedFrames(e.name, shape, r.Pool, r.packFrames(t, conv)), nil
	}
	return autograd.NewPacked(e.name, shape, r.Pool, r.pack(t, conv)), nil
}

// packFrames is pack for each frame of a convolution's kernel.
func (r *root) packFrames(t *tensor.Tensor, conv kernels.ConvShape) []*kernels.Packed {
	var taps []*kernels.Packed
	for i := range t.Dim(0) {
		part := t.Slice(i, i+1)
		taps = append(taps, r.pack(part, conv))
		part.Free()
	}
	return taps
}

// pack is the form that products of the model's arithmetic read.
func (r *root) pack(t *tensor.Tensor, conv kernels.ConvShape) *kernels.Packed {
	if conv.KH > 0 {
		w := r.Pool.PackConv(t.Span(), conv, r.Math)
		w.Conv = conv
		return w
	}
	return r.Pool.Pack(t.Mat(), r.Math)
}

// upload brings a stored tensor into memory: in F32, or in as few bytes as its values
// and the products need. A convolution's axes are put in the order of the engine.
func (r *root) upload(src safetensors.Tensor, shape []int, conv kernels.ConvShape, wide bool) (*tensor.Tensor, error) {
	d := kernels.F32
	if !wide && (src.DType == safetensors.BF16 || src.DType != safetensors.F32 && r.Math == kernels.MathBF16) {
		d = kernels.BF16
	}
	kept, frames := r.Pool.New, len(shape)-4
	if wide {
		kept = r.Pool.Lasting
	}
	turns := frames > 0 || conv.KH*conv.KW > 1
	var t *tensor.Tensor
	if turns {
		t = r.Pool.New(d, shape...)
	} else {
		t = kept(d, shape...)
	}
	switch {
	case r.Pool.Dry():
		be := r.Pool.Backend() // what lies mapped or drawn meanwhile
		be.Free(be.Alloc(max(len(src.Data), t.Len()*d.Size())))
	case src.DType == safetensors.F32 || src.DType == safetensors.BF16 && d == kernels.BF16:
		t.UploadBytes(src.Data) // every machine that this runs on is little endian
	case d == kernels.BF16:
		x, err := src.BF16(nil)
		if err != nil {
			t.Free()
			return nil, err
		}
		t.UploadBytes(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 2*len(x)))
	default:
		x, err := src.Float32(nil)
		if err != nil {
			t.Free()
			return nil, err
		}
		t.UploadF32(x)
	}
	if s, ok := r.Source.(interface{ Drop(string) }); ok {
		s.Drop(src.Name)
	}
	if !turns {
		return t, nil
	}
	defer t.Free()
	n := 1
	if frames > 0 {
		n = shape[0]
	}
	return turn(t, kept(d, shape...), conv, n, false), nil
}

// turn copies a convolution's weight t from the disk's order of axes [out, in, (frames,) KH, KW] to
// the engine's [(frames,) out, KH, KW, in], or back, into u.
func turn(t, u *tensor.Tensor, s kernels.ConvShape, frames int, back bool) *tensor.Tensor {
	window := s.KH * s.KW
	disk := [5]int{window, s.In * frames * window, s.KW, 1, frames * window}
	engine := [5]int{s.Out * window * s.In, s.In * window, s.KW * s.In, s.In, 1}
	if back {
		disk, engine = engine, disk
	}
	t.Pool().Backend().Copy(&kernels.Copy{Src: t.Span(), Dst: u.Span(), Shape: [5]int{frames, s.Out, s.KH, s.KW, s.In}, SrcStride: disk, DstStride: engine})
	return u
}

// transposed is a matrix's copy with its axes exchanged.
func (r *root) transposed(t *tensor.Tensor) *tensor.Tensor {
	rows, cols := t.Dim(0), t.Dim(1)
	u := r.Pool.New(t.DType(), cols, rows)
	r.Pool.Backend().Copy(&kernels.Copy{Src: t.Span(), Dst: u.Span(), Shape: [5]int{1, 1, 1, cols, rows},
		SrcStride: [5]int{0, 0, 0, 1, cols}, DstStride: [5]int{0, 0, 0, rows, 1}})
	return u
}

// later is a parameter as the disk has it, whose values are read when it is written.
func (e *entry) later(name string) safetensors.Tensor {
	s := e.param.Conv
	if e.frames > 0 || s.KH*s.KW > 1 || e.turned {
		return safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: e.stored, Fill: func(to *safetensors.Sink) error {
			_, err := to.Write(e.export(name, e.param.Value).Data)
			return err
		}}
	}
	return safetensors.ReadF32(name, e.stored, func(x []float32, from int) { e.param.Value.DownloadPart(x, from) })
}

// export is a parameter, or its gradient, as the disk has it, in fp32.
func (e *entry) export(name string, of *tensor.Tensor) safetensors.Tensor {
	t := of.Retain()
	if s := e.param.Conv; e.frames > 0 || s.KH*s.KW > 1 {
		u := turn(t, t.Pool().New(t.DType(), e.stored...), s, max(1, e.frames), true)
		t.Free()
		t = u
	}
	if e.turned {
		u := (&root{Options: Options{Pool: t.Pool()}}).transposed(t)
		t.Free()
		t = u
	}
	defer t.Free()
	return safetensors.FromF32(name, e.stored, t.F32())
}

// initial draws a parameter that is not read.
type initial struct {
	bound float32 // uniform between -bound and bound
	value float32 // or this constant
	sigma float32 // or normal
	fill  func() []float32
}

func (i initial) draw(k rng.Key, n int) []float32 {
	if i.fill != nil {
		return i.fill()
	}
	x := make([]float32, n)
	switch {
	case i.bound > 0:
		k.Uniform(x, 0)
		for j, u := range x {
			x[j] = float32(i.bound * (2*u - 1))
		}
	case i.sigma > 0:
		k.Normal(x, 0)
		for j, u := range x {
			x[j] = i.sigma * u
		}
	default:
		for j := range x {
			x[j] = i.value
		}
	}
	return x
}

// fanIn is PyTorch's default for layers: uniform within 1/sqrt(inputs).
func fanIn(n int) initial { return initial{bound: float32(1 / math.Sqrt(float64(n)))} }

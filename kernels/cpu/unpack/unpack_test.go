package unpack_test

import (
	"bytes"
	"flag"
	"fmt"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

var shapes = flag.Uint64("shapes", 2000, "how many random shapes and forms to compare with ref")

// TestPaths compares every listed case, and random shapes and forms, with ref on every path of this CPU.
func TestPaths(t *testing.T) {
	for _, p := range isa.Paths() {
		t.Run(p.String(), func(t *testing.T) {
			b := cpu.NewWith(cpu.Options{Path: p, Threads: 2})
			defer b.Close()
			for _, c := range kerneltest.Unpacks() {
				if err := kerneltest.Hold(c, b, 0); err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			}
			for i := range *shapes {
				c := kerneltest.RandomOf("unpack", 2, i)
				if err := kerneltest.Check(c, b, int(i%4)); err != nil {
					t.Fatalf("%s: %v", c.Name, err)
				}
			}
		})
	}
}

// packing packs each matrix that a backend unpacks, and its codes, in memory full of ones.
type packing struct {
	*cpu.Backend
	t *testing.T
}

func (p packing) Unpack(a *kernels.Unpack) {
	p.Backend.Unpack(a)
	if a.Dst.Rows == 0 || a.Dst.Cols == 0 || a.Dst.DType == kernels.F16 { // of which no weight is packed
		return
	}
	for _, m := range []kernels.Math{kernels.MathF32, kernels.MathBF16} {
		whole, codes := p.Pack(a.Dst, m), *a
		memory := p.Alloc(whole.Buf.Bytes)
		for i := range memory.Host {
			memory.Host[i] = 0xff
		}
		codes.Dst = kernels.Mat{Span: kernels.Span{DType: a.Dst.DType}, Rows: a.Dst.Rows, Cols: a.Dst.Cols, Stride: a.Dst.Cols}
		if w := p.PackCodes(memory, &codes, m); w.Form != whole.Form || !bytes.Equal(w.Buf.Host, whole.Buf.Host) {
			p.t.Errorf("a matrix of %d x %d in %s, packed for %s from its codes, has other bytes than packed in full", a.Dst.Rows, a.Dst.Cols, a.Dst.DType, m)
		}
		p.Free(memory)
		p.Free(whole.Buf)
	}
}

// TestPackCodes: codes packed on every path have the bytes of the matrix in full, packed.
func TestPackCodes(t *testing.T) {
	for _, p := range isa.Paths() {
		b := cpu.NewWith(cpu.Options{Path: p, Threads: 2})
		defer b.Close()
		for i := range *shapes / 20 {
			c := kerneltest.RandomOf("unpack", 3, i)
			if err := kerneltest.Check(c, packing{b, t}, 0); err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
		}
	}
}

// BenchmarkUnpack is a matrix of FLUX's to bf16, in GB of memory a second, read and written, beside a copy of as much.
func BenchmarkUnpack(b *testing.B) {
	const rows, cols = 3072, 12288
	for _, p := range isa.Paths() {
		be := cpu.NewWith(cpu.Options{Path: p})
		defer be.Close()
		span := func(n int, d kernels.DType) kernels.Span {
			return kernels.Span{Buf: be.Alloc(n * d.Size()), Len: n, DType: d}
		}
		dst := kernels.NewMat(span(rows*cols, kernels.BF16), rows, cols)
		for _, form := range []struct {
			name  string
			bits  int
			scale kernels.Blocks
		}{{"nf4", 4, kernels.Blocks{Flat: 64}}, {"fp8", 8, kernels.Blocks{}}, {"int8", 8, kernels.Blocks{Rows: 1}}, {"Q6_K", 8, kernels.Blocks{Flat: 16}}} {
			a := &kernels.Unpack{Codes: span(rows*cols*form.bits/8, kernels.U8), Bits: form.bits, Table: span(1<<form.bits, kernels.F32), Scale: form.scale, Dst: dst}
			a.Scale.Values = span(form.scale.Count(rows, cols), kernels.F32)
			codes := a.Codes.Raw()
			for i := range codes {
				codes[i] = byte(i * 7)
			}
			b.Run(fmt.Sprint(p, "/", form.name), func(b *testing.B) {
				b.SetBytes(int64(a.Codes.Len + 4*a.Scale.Values.Len + 2*rows*cols))
				for range b.N {
					be.Unpack(a)
				}
			})
		}
		b.Run(fmt.Sprint(p, "/copy"), func(b *testing.B) {
			src := span(rows*cols, kernels.BF16)
			b.SetBytes(4 * rows * cols)
			for range b.N {
				be.Copy(&kernels.Copy{Src: src, Dst: dst.Span, Shape: [5]int{1, 1, 1, 1, rows * cols}, SrcStride: [5]int{4: 1}, DstStride: [5]int{4: 1}})
			}
		})
	}
}

//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Rows of a vocabulary, which a block each adds up in several stretches, have the bits of ref.
func TestWideRows(t *testing.T) {
	double.New(t)
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, cols := range []int{4096, 9001} {
		got, want := overVocabulary(b, cols), overVocabulary(ref.Backend{}, cols)
		for name, w := range want {
			if !bytes.Equal(got[name], w) {
				t.Errorf("%d columns: %s differs from ref", cols, name)
			}
		}
	}
}

// overVocabulary is what a backend makes of two rows of logits.
func overVocabulary(be kernels.Backend, cols int) map[string][]byte {
	const rows = 2
	r := rand.New(rand.NewPCG(uint64(cols), 7))
	span := func(d kernels.DType, n int) kernels.Span {
		return kernels.Span{Buf: be.Alloc(n * d.Size()), Len: n, DType: d}
	}
	logits := span(kernels.BF16, rows*cols)
	var raw []byte
	for range logits.Len {
		raw = binary.LittleEndian.AppendUint16(raw, ref.ToBF16(float32(3*r.NormFloat64())))
	}
	be.Upload(logits, raw)
	index := span(kernels.I32, rows)
	be.Upload(index, binary.LittleEndian.AppendUint32(make([]byte, 4), uint32(cols-1)))
	dout := span(kernels.F32, rows)
	be.Upload(dout, []byte{0, 0, 128, 63, 0, 0, 0, 64})
	x, y, dx := kernels.NewMat(logits, rows, cols), span(kernels.F32, rows*cols), span(kernels.F32, rows*cols)
	be.Softmax(&kernels.Softmax{X: x, Y: kernels.NewMat(y, rows, cols)})
	a := kernels.LogSoftmaxGather{X: x, Index: index, Temperature: 0.7, Out: span(kernels.F32, rows), LSE: span(kernels.F32, rows), Entropy: span(kernels.F32, rows)}
	be.LogSoftmaxGather(&a)
	be.LogSoftmaxGatherBackward(&kernels.LogSoftmaxGatherBackward{LogSoftmaxGather: a, DOut: dout, DX: kernels.NewMat(dx, rows, cols)})
	out := map[string][]byte{}
	for name, s := range map[string]kernels.Span{"softmax": y, "out": a.Out, "lse": a.LSE, "entropy": a.Entropy, "dx": dx} {
		out[name] = make([]byte, s.Len*s.DType.Size())
		be.Download(out[name], s)
	}
	return out
}

//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"bytes"
	"flag"
	"math"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

var homes = flag.String("homes", "", "time weights from pinned memory on a device: 1 at FLUX's sizes, small to see that it starts")

// A homesRig is a chain of products like those of FLUX's feed-forward layers: up to four times the width, and down.
type homesRig struct {
	b           *cuda.Backend
	t           *testing.T
	width, wide int
	x, y        kernels.Mat // operand and result of a product up; of a product down the other way round
	kept        []*kernels.Packed
	stored      []*kernels.Stored
	bytes       int
}

// TestHomesTimes times copies from pinned memory, and a chain of products whose weights come from there beside the same
// products with weights that are kept, whose bits they must have.
func TestHomesTimes(t *testing.T) {
	if *homes == "" {
		t.Skip("-homes 1 times weights from pinned memory on a device")
	}
	r := cuda.Probe()
	if r.Missing != "" {
		t.Skip("no device: " + r.Missing)
	}
	b := openMode(t, 0, "own")
	t.Log(b)
	kerneltest.RunOffloader(t, b, kernels.Home{})
	h := &homesRig{b: b, t: t, width: 3072, wide: 12288}
	weights, most, all := 24, 16384, []int{2048, 4096, 8192, 16384}
	if *homes == "small" {
		h.width, h.wide, weights, most, all = 64, 128, 3, 32, []int{16, 32}
	}
	h.copies([]int{h.width / 8, h.width / 2, h.width, 2 * h.width})
	h.make(weights, most)
	for _, ring := range []int{2, 3, 4, 8} {
		b.Reserve(ring * kernels.Room(h.bytes))
		for _, rows := range all {
			h.time(rows, ring)
		}
	}
}

// copies times copies of square weights, one after another.
func (h *homesRig) copies(sides []int) {
	const n = 16
	for _, side := range sides {
		var all []*kernels.Stored
		bytes := 2 * side * side
		for range n {
			s, err := h.b.Store(&kernels.Packed{Math: kernels.MathBF16, N: side, K: side, Buf: h.b.Alloc(bytes)}, kernels.Home{})
			if err != nil {
				h.t.Fatal(err)
			}
			all = append(all, s)
		}
		h.b.Reserve(2 * kernels.Room(bytes))
		h.b.Sync()
		start := time.Now()
		for _, s := range all {
			w := h.b.Fetch(s)
			h.b.Await(w)
			h.b.Release(w)
		}
		h.b.Sync()
		h.t.Logf("homes: copies of %6.2f MB: %5.1f GB/s", float64(bytes)/1e6, float64(n*bytes)/time.Since(start).Seconds()/1e9)
		for _, s := range all {
			h.b.Discard(s)
		}
	}
}

// make draws weights and operands, and keeps and stores each weight.
func (h *homesRig) make(weights, rows int) {
	b := h.b
	h.bytes = 2 * h.width * h.wide
	span := func(n int) kernels.Span {
		s := kernels.Span{Buf: b.Alloc(2 * n), Len: n, DType: kernels.BF16}
		b.Normal(&kernels.Normal{Key: uint64(n), Y: s})
		return s
	}
	h.x, h.y = kernels.NewMat(span(rows*h.width), rows, h.width), kernels.NewMat(span(rows*h.wide), rows, h.wide)
	for i := range weights {
		n, k := h.wide, h.width
		if i%2 == 1 {
			n, k = k, n
		}
		w := kernels.NewMat(span(n*k), n, k)
		h.kept = append(h.kept, b.Pack(w, kernels.MathBF16))
		b.Free(w.Buf)
	}
	b.Sync()
	took := time.Duration(0)
	for _, w := range h.kept {
		p := b.Pack(kernels.NewMat(kernels.Span{Buf: w.Buf, Len: w.N * w.K, DType: kernels.BF16}, w.N, w.K), kernels.MathBF16)
		b.Sync()
		start := time.Now()
		s, err := b.Store(p, kernels.Home{})
		if err != nil {
			h.t.Fatal(err)
		}
		took += time.Since(start)
		h.stored = append(h.stored, s)
	}
	h.t.Logf("homes: store: %d weights of %.1f MB to pinned memory, %.1f GB/s, pinning and copies", weights, float64(h.bytes)/1e6, float64(weights*h.bytes)/took.Seconds()/1e9)
}

// pass is a product with each weight; ahead is how many are fetched before they are read, 0 where weights are kept.
// Without rows there are copies alone.
func (h *homesRig) pass(rows, ahead int) {
	var coming []*kernels.Packed
	for i, w := range h.kept {
		if ahead > 0 {
			for len(coming) < ahead && i+len(coming) < len(h.stored) {
				f := h.b.Fetch(h.stored[i+len(coming)])
				if f == nil {
					break
				}
				coming = append(coming, f)
			}
			w, coming = coming[0], coming[1:]
			h.b.Await(w)
		}
		from, to := h.x, h.y
		if i%2 == 1 {
			from, to = to, from
		}
		keeps := float32(1 / math.Sqrt(float64(from.Cols))) // numbers stay of one size through the chain
		h.b.Gemm(&kernels.Gemm{Layout: kernels.NT, Math: kernels.MathBF16, A: from.RowRange(0, rows), C: to.RowRange(0, rows), W: w, Alpha: keeps})
		if ahead > 0 {
			h.b.Release(w)
		}
	}
}

// best is the shortest of three passes.
func (h *homesRig) best(rows, ahead int) float64 {
	least := time.Duration(0)
	for range 3 {
		h.b.Sync()
		start := time.Now()
		h.pass(rows, ahead)
		h.b.Sync()
		if took := time.Since(start); least == 0 || took < least {
			least = took
		}
	}
	return least.Seconds() * 1e3
}

func (h *homesRig) time(rows, ring int) {
	result := func(ahead int) []byte {
		h.b.Normal(&kernels.Normal{Key: 1, Y: h.x.Span})
		h.pass(rows, ahead)
		out := make([]byte, 2*rows*h.width)
		h.b.Download(out, h.x.RowRange(0, rows).Span)
		return out
	}
	if !bytes.Equal(result(0), result(ring)) {
		h.t.Errorf("homes: ring of %d, %d rows: other bits than with weights that are kept", ring, rows)
	}
	kept, fetched, copies := h.best(rows, 0), h.best(rows, ring), h.best(0, ring)
	h.t.Logf("homes: ring of %d, %5d rows: kept %6.2f ms, from pinned memory %6.2f ms (%.2f times), copies alone %6.2f ms (%.1f GB/s); hidden %3.0f%% of what can be",
		ring, rows, kept, fetched, fetched/kept, copies, float64(len(h.kept)*h.bytes)/copies/1e6, 100*(kept+copies-fetched)/min(kept, copies))
}

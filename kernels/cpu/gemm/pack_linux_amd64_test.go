//go:build linux && amd64 && !noasm

package gemm

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// TestPackingOfAVX2: whole panels hold the numbers that the loops of operand.blocks put there, whatever these are, and
// nothing beyond the operand is read: its last byte is the last of a page, and reading the next page ends the process.
func TestPackingOfAVX2(t *testing.T) {
	if path, err := isa.Choose(); err != nil || path < isa.AVX2 {
		t.Skip("the CPU has no AVX2, or another path is asked for: ", err)
	}
	page := os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, 17*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	if err := unix.Mprotect(memory[16*page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		for _, across := range []bool{false, true} {
			for _, k := range []int{1, 3, 4, 7, 8, 9, 15, 16, 17, 32, 39, 64} {
				lines, length := panel, k+3
				if across {
					lines, length = k, panel+3
				}
				bytes := memory[16*page-((lines-1)*length+length-3)*d.Size() : 16*page]
				hardNumbers(r, bytes, d)
				b := operand{p: pointer(bytes), dtype: d, size: d.Size(), stride: length * d.Size(), across: across}
				comparePanels(t, b, k)
			}
		}
	}
}

// hardNumbers are infinities, denormals, and NaNs among others.
func hardNumbers(r *rand.Rand, to []byte, d kernels.DType) {
	for i := 0; i < len(to); i += d.Size() {
		u := math.Float32bits(float32(r.NormFloat64()))
		switch r.IntN(8) {
		case 0:
			u = r.Uint32() & 0x807fffff // denormal
		case 1:
			u |= 0x7f800000
		case 2:
			u = u&0x80000000 | 0x7f800000
		case 3:
			u = u&0xffff0000 | 0x8000 // a tie
		case 4:
			u = u&0x80000000 | 0x7f7fffff - r.Uint32()&1<<15
		}
		if d == kernels.F32 {
			binary.LittleEndian.PutUint32(to[i:], u)
		} else {
			binary.LittleEndian.PutUint16(to[i:], uint16(u>>16))
		}
	}
}

// comparePanels packs a panel over k in both kinds of arithmetic.
func comparePanels(t *testing.T, b operand, k int) {
	t.Helper()
	tmp := make([]float32, tmpBytes/4)
	narrow, wide := make([]uint16, roundUp(k, 32)*panel), make([]uint32, roundUp(k, 32)*panel)
	wantNarrow, wantWide := slices.Clone(narrow), slices.Clone(wide)
	b.blocks(pointer(tmp), 0, panel, 0, k, func(i, c int, x float32) {
		wantNarrow[paired(i, c)], wantWide[i*panel+c] = ref.ToBF16(x), math.Float32bits(x)
	})
	wideAVX2{}.packB(pointer(narrow), pointer(tmp), b, 0, panel, 0, k)
	f32AVX2{}.packB(pointer(wide), pointer(tmp), b, 0, panel, 0, k)
	for i := range narrow {
		if narrow[i] != wantNarrow[i] || wide[i] != wantWide[i] {
			t.Fatalf("%s, across %t, k = %d: number %d is %#x and %#x, want %#x and %#x", b.dtype, b.across, k, i,
				narrow[i], wide[i], wantNarrow[i], wantWide[i])
		}
	}
	if n := packingBF16.whole(unsafe.Pointer(&narrow[0]), b, 0, panel, 0, k); k >= 16 && n == 0 {
		t.Errorf("%s, across %t, k = %d: nothing is packed in assembly", b.dtype, b.across, k)
	}
}

package peak

import (
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// A Table is the machine's peaks with some number of threads: floating-point operations (a multiply-add is two) or
// bytes, 1e9 a second.
type Table struct {
	Threads int     `json:"threads"`
	F32     float64 `json:"f32_gflops"`
	BF16    float64 `json:"bf16_gflops"` // of the fastest unit that can compute them: F32's on some CPUs
	L2      float64 `json:"l2_gbytes"`   // reading
	L3      float64 `json:"l3_gbytes"`
	Memory  float64 `json:"memory_gbytes"`
}

// The sizes that each thread reads. They lie in the level that they are named for
// on the server CPUs of the last years, as long as few threads share an L3.
const (
	sizeL2     = 512 << 10
	sizeL3     = 6 << 20
	allMemory  = 256 << 20 // of all threads together, but
	leastShare = 16 << 20  // at least this for each, or it would stay in the caches
)

// Measure probes everything, of p and the paths below it; it takes about half a second.
func Measure(p isa.Path, threads int) Table {
	f32, bf16 := fastest(p, threads)
	return Table{
		Threads: threads,
		F32:     f32,
		BF16:    bf16,
		L2:      Read(p, threads, sizeL2),
		L3:      Read(p, threads, sizeL3),
		Memory:  Read(p, threads, max(allMemory/threads, leastShare)),
	}
}

// fastest are the highest rates of p and the paths below it. A path's own unit for bf16 may be slower than fp32
// multiply-adds, of which a product of bf16 takes one.
func fastest(p isa.Path, threads int) (f32, bf16 float64) {
	for _, q := range isa.Paths() {
		if q == isa.Plain && p != isa.Plain || q > p {
			continue
		}
		if q <= isa.AVX512 || q == isa.NEON {
			f32 = max(f32, F32(q, threads))
			bf16 = max(bf16, f32)
		} else {
			bf16 = max(bf16, BF16(q, threads))
		}
	}
	return f32, bf16
}

// F32 is the rate of fp32 multiply-adds.
func F32(p isa.Path, threads int) float64 {
	return best(threads, func() (func(), float64) { return multiplyAdds(p, operands()) })
}

// BF16 is the rate of bf16 products summed in fp32. A path without them makes
// them of fp32 multiply-adds, so there it is F32.
func BF16(p isa.Path, threads int) float64 {
	return best(threads, func() (func(), float64) {
		x := operands()
		for i, v := range x { // two bf16 each, in place of one fp32
			high := math.Float32bits(v) & 0xffff0000
			x[i] = math.Float32frombits(high | high>>16)
		}
		return products(p, x)
	})
}

// Read is the rate at which threads read, each its own size bytes over and over.
// Each thread writes its own first, so that they lie in memory near it.
func Read(p isa.Path, threads, size int) float64 {
	const chunk = 256 << 10 // a call
	return best(threads, func() (func(), float64) {
		words, at := make([]uint64, size/8), 0
		for i := range words {
			words[i] = uint64(i) * 0x9E3779B97F4A7C15
		}
		n := min(chunk/8, len(words))
		return func() {
			read(p, words[at:at+n])
			if at += n; at+n > len(words) {
				at = 0
			}
		}, float64(8 * n)
	})
}

// operands are random numbers in (0, 1), 4 KiB.
func operands() []float32 {
	x := make([]float32, 1024)
	rng.New(1).UniformOpen(x, 0)
	return x
}

// best runs a probe on some threads at once and returns the highest sum of
// their rates, in 1e9 a second. The probe is asked once for each thread and
// returns a call and how much work a call is.
func best(threads int, probe func() (call func(), work float64)) float64 {
	const runs, window = 12, 4 * time.Millisecond
	var starts, ends sync.WaitGroup
	rates := make([][runs]float64, threads)
	starts.Add(threads)
	for t := range threads {
		ends.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			call, work := probe()
			call()
			starts.Done()
			starts.Wait()
			for r := range runs {
				calls, begin := 0.0, ThreadTime()
				spent := time.Duration(0)
				for spent < window {
					call()
					calls++
					spent = ThreadTime() - begin
				}
				rates[t][r] = calls * work / float64(spent.Nanoseconds())
			}
		})
	}
	ends.Wait()
	top := 0.0
	for r := range runs {
		sum := 0.0
		for t := range threads {
			sum += rates[t][r]
		}
		top = max(top, sum)
	}
	return top
}

// The loops in plain Go: the limit of the plain path.

const plainRounds = 4096

// multiplyAddsPlain is eight chains of c·a + b, which the compiler can neither
// shorten nor drop, since their sum is returned.
func multiplyAddsPlain(a, b float32) float32 {
	var c0, c1, c2, c3 float32
	c4, c5, c6, c7 := a, a, b, b
	for range plainRounds {
		c0 = float32(c0*a) + b
		c1 = float32(c1*b) + a
		c2 = float32(c2*a) + a
		c3 = float32(c3*b) + b
		c4 = float32(c4*a) + b
		c5 = float32(c5*b) + a
		c6 = float32(c6*a) + a
		c7 = float32(c7*b) + b
	}
	return c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7
}

func plainProbe(x []float32) (call func(), work float64) {
	return func() { x[2] = multiplyAddsPlain(x[0], x[1]) }, 8 * 2 * plainRounds
}

func readPlain(x []uint64) uint64 {
	var s0, s1, s2, s3 uint64
	for ; len(x) >= 4; x = x[4:] {
		s0 ^= x[0]
		s1 ^= x[1]
		s2 ^= x[2]
		s3 ^= x[3]
	}
	return s0 ^ s1 ^ s2 ^ s3
}

package peak

import (
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// A Table is the machine's peaks on one path with some number of threads:
// floating-point operations (a multiply-add is two) or bytes, 1e9 a second.
type Table struct {
	Threads int     `json:"threads"`
	F32     float64 `json:"f32_gflops"`
	BF16    float64 `json:"bf16_gflops"` // F32's where the path has no bf16 products
	L2      float64 `json:"l2_gbytes"`   // reading
	L3      float64 `json:"l3_gbytes"`
	Memory  float64 `json:"memory_gbytes"`
}

// The sizes that are read, for each thread: they lie in the level that they are
// named for on every server CPU of the last years.
const (
	sizeL2     = 512 << 10
	sizeL3     = 6 << 20
	sizeMemory = 256 << 20 // of all threads together
)

// Measure probes everything; it takes about half a second.
func Measure(p isa.Path, threads int) Table {
	return Table{
		Threads: threads,
		F32:     F32(p, threads),
		BF16:    BF16(p, threads),
		L2:      Read(p, threads, sizeL2),
		L3:      Read(p, threads, sizeL3),
		Memory:  Read(p, threads, sizeMemory/threads),
	}
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
func Read(p isa.Path, threads, size int) float64 {
	const chunk = 256 << 10 // a call
	words := make([]uint64, threads*size/8)
	for i := range words {
		words[i] = uint64(i) * 0x9E3779B97F4A7C15
	}
	parts := make(chan []uint64, threads)
	for t := range threads {
		parts <- words[t*size/8 : (t+1)*size/8]
	}
	return best(threads, func() (func(), float64) {
		mine, at := <-parts, 0
		n := min(chunk/8, len(mine))
		return func() {
			read(p, mine[at:at+n])
			if at += n; at+n > len(mine) {
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
				calls, begin := 0.0, threadTime()
				spent := time.Duration(0)
				for spent < window {
					call()
					calls++
					spent = threadTime() - begin
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

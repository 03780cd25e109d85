//go:build (!amd64 && !arm64) || noasm

package peak

import "github.com/darkroom-rl/darkroom/kernels/cpu/isa"

func multiplyAdds(_ isa.Path, x []float32) (call func(), work float64) { return plainProbe(x) }

func products(_ isa.Path, x []float32) (call func(), work float64) { return plainProbe(x) }

func read(_ isa.Path, x []uint64) uint64 { return readPlain(x) }

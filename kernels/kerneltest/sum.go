package kerneltest

import "github.com/darkroom-rl/darkroom/kernels/ref"

// Sum is how gradients of several devices are added (kernels/exchange) as it is defined,
// of one span: parts[r] is rank r's.
func Sum(parts [][]float32) []float32 {
	sum := make([]float32, len(parts[0]))
	for i := range sum {
		sum[i] = ref.Flush(parts[0][i])
		for _, part := range parts[1:] {
			sum[i] = ref.Flush(sum[i] + ref.Flush(part[i]))
		}
	}
	return sum
}

package safetensors

import "testing"

// BenchmarkConvert: a billion elements take as many seconds as an element nanoseconds.
func BenchmarkConvert(b *testing.B) {
	const n = 1 << 16
	for _, d := range []DType{F32, BF16, F16, F8E4M3} {
		t := Tensor{DType: d, Shape: []int{n}, Data: make([]byte, n*d.Bits()/8)}
		for i := range t.Data {
			t.Data[i] = byte(i*7) & 0xbf // no infinities, no NaN
		}
		wide, half := make([]float32, n), make([]uint16, n)
		b.Run(d.String()+"/f32", func(b *testing.B) {
			for b.Loop() {
				_, _ = t.Float32(wide)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
		})
		b.Run(d.String()+"/bf16", func(b *testing.B) {
			for b.Loop() {
				_, _ = t.BF16(half)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
		})
	}
}

package kernels

// Normal fills Y (f32 or bf16) with the normals Start, Start+1, ... of a stream of
// package rng, which is named by Philox's key and the upper half of its counter.
type Normal struct {
	Key, Stream uint64
	Start       uint64
	Y           Span
}

// Row applies one row of a solver to every sample s (a row of the matrices):
//
//	mean = A[s]·X + B[0][s]·Out[0] + B[1][s]·Out[1] + ...
//	next = mean + C[s]·Noise
//
// as a chain of fused multiply-adds in that order. With Given, Next is an operand instead. Square[s] is the sum of
// (next - mean)², terms in fp32, the sum in float64 over the tree of Reduce: the term of a log-probability.
type Row struct {
	X, Noise, Next Mat
	Out            []Mat
	A, C           []float32
	B              [][]float32
	Mean           Mat  // optional
	Square         Span // optional, f64 [samples]
	Given          bool
}

// AdamW is one step of the optimiser on fp32 state:
//
//	g = Grad · GradScale
//	M = M + (1-Beta1)·(g - M);  V = Beta2·V + (1-Beta2)·g²
//	P = P·(1 - Rate·Decay) - Step·M / (sqrt(V)·RootScale + Eps)
//
// where Step = Rate/(1-Beta1^t) and RootScale = 1/sqrt(1-Beta2^t) are the caller's.
// The betas are float64 so that 1-Beta2 is rounded once: taken from a rounded
// 0.999 it would be off by 1e-5 of itself.
type AdamW struct {
	P, Grad, M, V    Span // f32
	GradScale        float32
	Beta1, Beta2     float64
	Rate, Decay, Eps float32
	Step, RootScale  float32
}

// New is the share of the new value in each average, 1-Beta1 and 1-Beta2.
func (a *AdamW) New() (first, second float32) { return float32(1 - a.Beta1), float32(1 - a.Beta2) }

package kernels

// Layout says how the operands of a product lie in memory.
type Layout uint8

const (
	// NT is A[M,K] and B[N,K]: a linear layer's forward.
	NT Layout = iota
	// NN is A[M,K] and B[K,N]: the gradient of a linear layer's input.
	NN
	// TN is A[K,M] and B[K,N]: the gradient of a linear layer's weight.
	TN
)

func (l Layout) String() string { return [...]string{"NT", "NN", "TN"}[l] }

// Gemm is C = epilogue(op(A) · op(B)), or C += that.
//
// In order, each a separately rounded fp32 operation on the product v: v *= Alpha; v += Bias[n]; Pre = v; v = Act(v);
// v *= Gate[m/GateRows, n]; v += Residual[m, n]; v += C[m, n] if Accumulate; then v is stored in C. Pair is a second
// product that is added.
type Gemm struct {
	Layout  Layout
	Math    Math
	A, B, C Mat // f32 or bf16, each on its own
	// W, if set, takes the place of B: a frozen weight packed once by Pack from
	// its [N,K] form. It serves NT (C[M,N] = A[M,K]·Wᵀ) and NN (C[M,K] = A[M,N]·W).
	W *Packed

	// Segments, for TN alone, are the numbers of rows of A and B that belong to
	// one sample each; they add up to A.Rows. The product of every sample is formed
	// alone (in bf16 math its rows are zero-padded to 32), and the products, each times
	// Alpha, are added in order, to C where Accumulate is set. No epilogue goes with
	// them. Nil means one sample.
	Segments []int

	Alpha    float32 // 0 means 1
	Bias     Span    // optional, [N]
	Pre      Mat     // optional, [M,N]: the value before Act, for the backward
	Act      UnaryOp // Identity, or an activation
	Gate     Mat     // optional, [ceil(M/GateRows), N]
	GateRows int
	Residual Mat // optional, [M,N]

	Pair *Pair // optional, of NT and NN

	Accumulate bool // C must be f32
}

// Pair is a second product of the same layout, whose k is another: the low-rank one of an adapter (LoRA). It is added
// to the first, without memory of its own where a backend forms both in one sum. Package ref, and all CPUs, have two
// sums, each with roundings of its own (Apart):
//
//	NT: u = Alpha · A·Bᵀ; Pre = u; u *= Gate; u += Residual, all in fp32; then u is the first product's residual
//	NN: u = Alpha · A·B is added to C once that is stored; nothing but Residual goes with the first
//
// One sum is Gate · (Gemm.Alpha · A·Bᵀ + u + Bias) + Residual. Its Gemm.Pre is the value before the gate, and the
// pair's is 0: in either way both Pre add up to that value. There is no activation and no accumulation.
type Pair struct {
	A, B  Mat
	W     *Packed // in the place of B
	Alpha float32 // 0 means 1
	Pre   Mat     // optional, f32 [M,N], of NT
}

// Apart is a product with a pair as two products, one after the other. NT needs u, memory of f32 [M,N].
func (a *Gemm) Apart(u Mat) (first, second *Gemm) {
	whole, p := *a, a.Pair
	whole.Pair = nil
	low := &Gemm{Layout: a.Layout, Math: a.Math, A: p.A, B: p.B, W: p.W, Alpha: p.Alpha}
	if a.Layout == NN {
		low.C, low.Residual = a.C, a.C
		return &whole, low
	}
	low.C, low.Pre, low.Gate, low.GateRows, low.Residual = u, p.Pre, a.Gate, a.GateRows, a.Residual
	whole.Residual = u
	return low, &whole
}

// Packed is a frozen weight in the form that a backend's products read fastest.
// It is made once and never changes; the content of Buf is the backend's business.
type Packed struct {
	Math Math
	N, K int // rows and columns of the weight as it was: [out, in]
	Conv ConvShape
	Form int // the backend's own mark of the layout
	Buf  *Buffer
}

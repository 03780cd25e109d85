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
// In order, each a separately rounded fp32 operation on the product v:
// v *= Alpha; v += Bias[n]; Pre = v; v = Act(v); v *= Gate[m/GateRows, n];
// v += Residual[m, n]; v += C[m, n] if Accumulate; then v is stored in C.
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

	Accumulate bool // C must be f32
}

// Packed is a frozen weight in the form that a backend's products read fastest.
// It is made once and never changes; what Buf holds is the backend's business.
type Packed struct {
	Math Math
	N, K int // rows and columns of the weight as it was: [out, in]
	Conv ConvShape
	Form int // the backend's own mark of the layout
	Buf  *Buffer
}

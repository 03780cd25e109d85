package kernels

// UnaryOp is a function of one number.
type UnaryOp uint8

// The functions. Their polynomials are those of package ref.
const (
	Identity  UnaryOp = iota
	GELUTanh          // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³)))
	GELUErf           // 0.5 x (1 + erf(x / sqrt 2))
	QuickGELU         // x · sigmoid(1.702 x)
	SiLU              // x · sigmoid(x)
	ReLU
	Sigmoid
	Tanh
	Exp
	Square
)

var unaryNames = [...]string{"identity", "gelu_tanh", "gelu", "quick_gelu", "silu", "relu", "sigmoid", "tanh", "exp", "square"}

func (u UnaryOp) String() string { return unaryNames[u] }

// Unary is Y = Op(X), and a cast where the types differ.
type Unary struct {
	Op   UnaryOp
	X, Y Span
}

// UnaryBackward is DX = DY · Op'(X), where X is the forward's operand.
type UnaryBackward struct {
	Op        UnaryOp
	X, DY, DX Span
}

// BinaryOp is a function of two numbers.
type BinaryOp uint8

// The functions of two numbers.
const (
	Add BinaryOp = iota
	Sub
	Mul
	Div
)

// Binary is Z = X Op Y, element by element. Where Y is shorter than X, X.Len is a
// multiple of Y.Len and Y repeats.
type Binary struct {
	Op      BinaryOp
	X, Y, Z Span
}

// Axpby is Y = A·X + B·Y, with the product A·X rounded and B·Y fused: fma(B, Y, A·X).
// With B = 0, Y is not read.
type Axpby struct {
	A, B float32
	X, Y Span
}

// Modulate is Y[r] = X[r] · (1 + Scale[s]) + Shift[s], for the sample s = r / RowsPerSample.
type Modulate struct {
	X, Y          Mat
	Scale, Shift  Mat // [samples, Cols]
	RowsPerSample int
}

// ModulateBackward writes DX, DScale and DShift, each optional. Rows of a sample
// are added one after another.
type ModulateBackward struct {
	Modulate
	DY, DX         Mat
	DScale, DShift Mat
}

// Gated is Y[r] = Residual[r] + X[r] · Gate[s], for the sample s = r / RowsPerSample.
type Gated struct {
	X, Residual, Y Mat
	Gate           Mat // [samples, Cols]
	RowsPerSample  int
}

// GatedBackward writes DX = DY · Gate and DGate[s] = sum over its rows of DY · X,
// each optional. The gradient of Residual is DY itself.
type GatedBackward struct {
	Gated
	DY, DX Mat
	DGate  Mat
}

// GLU is Y = X · Act(Gate): two halves of a wide layer, GEGLU and SwiGLU.
type GLU struct {
	Act     UnaryOp
	X, Gate Mat
	Y       Mat
}

// GLUBackward writes DX = DY · Act(Gate) and DGate = DY · X · Act'(Gate).
type GLUBackward struct {
	GLU
	DY, DX, DGate Mat
}

// Copy moves a box of up to five axes between strided layouts, and casts between
// F32, BF16 and F16. Strides are in elements; the last axis need not be contiguous.
// With Accumulate it adds (Dst must be F32 or BF16).
type Copy struct {
	Src, Dst             Span
	Shape                [5]int // unused leading axes are 1
	SrcStride, DstStride [5]int
	Accumulate           bool
}

package kernels

// NormKind is the statistic that a row is normalised by.
type NormKind uint8

const (
	LayerNorm NormKind = iota // (x - mean) / sqrt(var + eps)
	RMSNorm                   // x / sqrt(mean of squares + eps)
)

// Norm is, for each row r of sample s = r / RowsPerSample,
//
//	n = normalise(X[r]) · Weight + Bias
//	Y[r] = n · (1 + Scale[s]) + Shift[s]
type Norm struct {
	Kind          NormKind
	X, Y          Mat
	Weight, Bias  Span // optional, [Cols], f32 or bf16
	Scale, Shift  Mat  // optional, [samples, Cols], f32 or bf16
	RowsPerSample int  // used where Scale or Shift is given, and for weight gradients
	Eps           float32
	Mean, Rstd    Span // f32 [Rows], optional: saved for the backward (Mean for LayerNorm alone)
}

// NormBackward takes DY to DX and to the gradients of the parameters. Each
// destination is optional. DWeight, DBias (f32 [Cols]) are added to, sample by
// sample in order; DX, DScale and DShift are written. Mean and Rstd are the forward's.
type NormBackward struct {
	Norm
	DY, DX         Mat
	DWeight, DBias Span
	DScale, DShift Mat
}

// GroupNorm normalises X [N, HW, C] over each sample's HW x C/Groups, then
// multiplies by Weight, adds Bias, and applies Act.
type GroupNorm struct {
	X, Y         Span // contiguous [N, HW, C]
	N, HW, C     int
	Groups       int
	Weight, Bias Span // [C], optional
	Eps          float32
	Act          UnaryOp // Identity or SiLU
	Mean, Rstd   Span    // f32 [N, Groups], optional: saved for the backward
}

// GroupNormBackward takes DY to DX, and adds to DWeight and DBias (f32 [C])
// sample by sample in order. Each destination is optional.
type GroupNormBackward struct {
	GroupNorm
	DY, DX         Span
	DWeight, DBias Span
}

// Softmax is Y[r] = softmax(X[r]).
type Softmax struct{ X, Y Mat }

// SoftmaxBackward is DX = Y · (DY - sum(Y · DY)).
type SoftmaxBackward struct{ Y, DY, DX Mat }

// LogSoftmaxGather is Out[r] = log softmax(X[r] / Temperature)[Index[r]]; LSE[r] is
// the natural logarithm of the row's sum of exponentials. Entropy is optional.
// An index below zero gives Out = 0.
type LogSoftmaxGather struct {
	X           Mat
	Index       Span    // i32 [Rows]
	Temperature float32 // 0 means 1
	Out, LSE    Span    // f32 [Rows]
	Entropy     Span    // f32 [Rows], optional
}

// LogSoftmaxGatherBackward is DX[r, c] = DOut[r] · (1{c = Index[r]} - softmax(X[r]/T)[c]) / T.
type LogSoftmaxGatherBackward struct {
	LogSoftmaxGather
	DOut Span
	DX   Mat
}

// Embedding is Y[r] = Table[Index[r]].
type Embedding struct {
	Table Mat
	Index Span // i32
	Y     Mat
}

// EmbeddingBackward adds DY[r] to DTable[Index[r]] (f32), in the order of the rows.
type EmbeddingBackward struct {
	DY     Mat
	Index  Span
	DTable Mat
}

// SumRows is Out[c] (+)= sum over rows of X[r, c]: a bias gradient. Rows are added
// one after another within a sample (Segments as in Gemm), samples in order.
type SumRows struct {
	X          Mat
	Segments   []int
	Out        Span // f32 [Cols]
	Accumulate bool
}

// ReduceOp is what Reduce adds up.
type ReduceOp uint8

const (
	ReduceSum     ReduceOp = iota // x
	ReduceSquares                 // x²
	ReduceDot                     // x · y
	ReduceMax                     // the largest |x|; NaN if any is
)

// Reduce is Out[r] = sum over c of the terms of X[r, c] (and Y[r, c]): terms in
// fp32, the sum in float64 over one fixed tree.
type Reduce struct {
	Op   ReduceOp
	X, Y Mat
	Out  Span // f64 [Rows]
}

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

// ReduceOp is the term that Reduce adds up.
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

// Draw draws a token of each row of logits. A logit of a token that was seen is divided by Repetition (above 0) or
// multiplied (below); a banned token has no probability. Then, with m the largest logit,
//
//	d = (logit - m) / Temperature
//
// and of the tokens stay the TopK likeliest (all that tie with the last of them), of these the likeliest that hold
// TopP (from the least likely up, dropped while their sum is at most 1-TopP; of those that tie, those of smaller
// indices first), and of these all that have MinP of the likeliest one's probability. The distribution is the
// softmax of d over those that stay.
//
// Token is where Uniform falls in its running sum, in the order of the indices; without Uniform the likeliest, the
// first of those that tie. Where Given holds an index that is not below 0, it is that token. LogProb and Entropy are
// those of the distribution; a token that it rules out has LogProb -Inf.
type Draw struct {
	X           Mat     // [Rows, Cols], at most 2^20 columns
	Temperature float32 // 0 means 1
	TopK        int     // 0 means all
	TopP        float64 // 0 and 1 mean all
	MinP        float32 // 0 means all
	Repetition  float32 // 0 means 1
	Banned      Span    // i32 [Words(Cols)], optional: bit i%32 of word i/32 is token i's
	Seen        Span    // i32 [Rows, Words(Cols)], optional: the same of each row
	Uniform     Span    // f64 [Rows], from 0 to below 1; optional
	Given       Span    // i32 [Rows], optional
	Token       Span    // i32 [Rows]: or the reason of a missing one, DrawNotFinite or DrawNoToken
	LogProb     Span    // f32 [Rows]: 0 where there is no token
	Entropy     Span    // f32 [Rows], in nats: 0 where there is no token
}

// Values of Token for a row without one.
const (
	DrawNotFinite = -1 // a logit that is not banned is NaN or +Inf
	DrawNoToken   = -2 // all are banned or -Inf
)

// MostDrawn is how many columns Draw takes.
const MostDrawn = 1 << 20

// Words is how many words of 32 bits a set of n tokens takes.
func Words(n int) int { return (n + 31) / 32 }

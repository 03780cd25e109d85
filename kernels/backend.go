package kernels

// Backend is the one list of operations. Calls are queued or run in order; a
// caller sees results after Download or Sync. A Backend is used by one
// goroutine at a time.
type Backend interface {
	// Name says which backend and path this is, for logs: "cpu/avx512".
	Name() string

	// Alloc returns a buffer of at least n bytes whose contents are undefined;
	// Free gives it back. Upload and Download copy a span from and to the host.
	Alloc(n int) *Buffer
	Free(*Buffer)
	Upload(dst Span, src []byte)
	Download(dst []byte, src Span)
	Sync()

	// Matrix products, and what they are fused with.
	Pack(w Mat, math Math) *Packed
	Gemm(*Gemm)

	// Attention.
	Attention(*Attention)
	AttentionBackward(*AttentionBackward)
	Rope(*Rope)

	// Rows: normalisation, softmax, lookup.
	Norm(*Norm)
	NormBackward(*NormBackward)
	GroupNorm(*GroupNorm)
	GroupNormBackward(*GroupNormBackward)
	Softmax(*Softmax)
	SoftmaxBackward(*SoftmaxBackward)
	LogSoftmaxGather(*LogSoftmaxGather)
	LogSoftmaxGatherBackward(*LogSoftmaxGatherBackward)
	Embedding(*Embedding)
	EmbeddingBackward(*EmbeddingBackward)

	// Pictures.
	PackConv(w Span, s ConvShape, math Math) *Packed
	Conv(*Conv)
	ConvBackward(*ConvBackward)
	Upsample(*Upsample)
	UpsampleBackward(*UpsampleBackward)

	// Element-wise families.
	Unary(*Unary)
	UnaryBackward(*UnaryBackward)
	Binary(*Binary)
	Axpby(*Axpby)
	Modulate(*Modulate)
	ModulateBackward(*ModulateBackward)
	Gated(*Gated)
	GatedBackward(*GatedBackward)
	GLU(*GLU)
	GLUBackward(*GLUBackward)
	Fill(dst Span, value float32)
	Copy(*Copy)

	// Reductions, in fixed order.
	SumRows(*SumRows)
	Reduce(*Reduce)

	// Sampling and optimisation.
	Normal(*Normal)
	Draw(*Draw)
	Row(*Row)
	AdamW(*AdamW)
}

// Math is the arithmetic of a product.
type Math uint8

const (
	// MathF32 is one sequential chain of fp32 fused multiply-adds.
	MathF32 Math = iota
	// MathBF16 rounds its operands to bf16 and follows the rule of AMX tiles:
	// for each 32 of k ascending, E and O start at zero, E takes the even k and O
	// the odd k as chains of fused multiply-adds, then C += E + O.
	MathBF16
)

func (m Math) String() string { return [...]string{"f32", "bf16"}[m] }

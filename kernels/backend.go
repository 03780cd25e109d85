package kernels

import "fmt"

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

	// Frozen weights, compressed and not.
	Unpack(*Unpack)

	// Matrix products, and the operations fused with them.
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

// Traffic is the requests of a backend to a device: kernels started, times the program waited for it, and copies
// between the two memories. Times depend on the machine; these do not.
type Traffic struct {
	Launches      int   `json:"launches"`
	Waits         int   `json:"waits"`
	Uploads       int   `json:"uploads"`
	Downloads     int   `json:"downloads"`
	UploadBytes   int64 `json:"upload_bytes"`
	DownloadBytes int64 `json:"download_bytes"`
}

// Since is the requests after an earlier reading.
func (t Traffic) Since(before Traffic) Traffic {
	return Traffic{t.Launches - before.Launches, t.Waits - before.Waits, t.Uploads - before.Uploads, t.Downloads - before.Downloads,
		t.UploadBytes - before.UploadBytes, t.DownloadBytes - before.DownloadBytes}
}

// A DeviceError is the panic of a backend's operation whose device could not do it: out of memory, lost, a library's
// refusal. Operations return nothing, so there is no other way out of them; Recover makes it an error again where a
// caller has one to return.
type DeviceError interface {
	error
	OnDevice() string // "cuda:0"
}

// Recover puts a device's failure into *err, where nothing failed before it. It is deferred. Any other panic is a
// mistake in the program, and goes on.
func Recover(err *error) {
	switch r := recover().(type) {
	case nil:
	case DeviceError:
		if *err == nil {
			*err = r
		}
	default:
		panic(r)
	}
}

// NotFinite is an error of numbers that are infinite or none, where arithmetic left the range of its type. The device
// is whole, and earlier results are valid.
type NotFinite struct{ error }

// NotFiniteError names the holder of such numbers.
func NotFiniteError(format string, args ...any) NotFinite {
	return NotFinite{fmt.Errorf(format, args...)}
}

func (n NotFinite) Unwrap() error { return n.error }

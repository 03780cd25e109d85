package kernels

// KeyBlock is the number of keys that one step of the online softmax takes. It
// fixes where rescaling happens, so it is part of Attention's definition.
const KeyBlock = 256

// Attention is O = softmax(Scale·Q·Kᵀ + Bias, masked) · V for each batch and head.
//
// K and V may have fewer heads than Q (Q.H a multiple): head h reads K and V of
// head h / (Q.H/K.H). V's head dimension may differ from that of Q and K.
// A query that sees no key gives zeros and LSE = -Inf.
type Attention struct {
	Math       Math
	Q, K, V, O Heads
	// LSE, optional, is f32 [B, H, Sq]: the logarithm to base 2 of the sum of
	// exp2(score·log2 e), which the backward reads.
	LSE    Span
	Scale  float32 // usually 1/sqrt(D)
	Causal bool    // query i sees keys j <= i + (Sk - Sq)
	// KeyLens, optional, [B]: keys at and after it are not seen.
	KeyLens []int32
	Bias    AttentionBias
}

// AttentionBias is added to the scaled scores: f32, element (b, h, q, k) at
// b*SB + h*SH + q*SQ + k. A stride of zero shares it. Absent if empty.
type AttentionBias struct {
	Span
	SB, SH, SQ int
}

// AttentionBackward takes the gradient DO of O to DQ, DK and DV. The forward's
// operands, O and LSE are those of the forward. Delta is scratch, f32 [B, H, Sq].
// With grouped heads DK and DV add over the query heads of their group, in order.
// DBias, optional, f32 with the layout of Bias, is added to.
type AttentionBackward struct {
	Attention
	DO, DQ, DK, DV Heads
	Delta          Span
	DBias          Span
}

// RopeKind says which elements turn together.
type RopeKind uint8

const (
	// RopeInterleaved turns (x[2i], x[2i+1]): FLUX, Wan.
	RopeInterleaved RopeKind = iota
	// RopeHalves turns (x[i], x[i+D/2]): Qwen, Llama.
	RopeHalves
)

// Rope is Y = X turned by the angles whose cosines and sines are given:
// (a, b) becomes (a·cos - b·sin, b·cos + a·sin).
type Rope struct {
	Kind     RopeKind
	X, Y     Heads // the same shape; Y may be X. D even
	Cos, Sin Mat   // f32 [S, D/2], or [B·S, D/2]
	Inverse  bool  // turn back: the backward
}

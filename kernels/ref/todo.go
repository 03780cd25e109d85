package ref

import "github.com/darkroom-rl/darkroom/kernels"

// Operations whose loops are still to come. Each line goes when its loop arrives.

func (Backend) Attention(*kernels.Attention) { panic("ref: Attention is to come") }
func (Backend) AttentionBackward(*kernels.AttentionBackward) {
	panic("ref: AttentionBackward is to come")
}
func (Backend) Rope(*kernels.Rope)                 { panic("ref: Rope is to come") }
func (Backend) Norm(*kernels.Norm)                 { panic("ref: Norm is to come") }
func (Backend) NormBackward(*kernels.NormBackward) { panic("ref: NormBackward is to come") }
func (Backend) GroupNorm(*kernels.GroupNorm)       { panic("ref: GroupNorm is to come") }
func (Backend) GroupNormBackward(*kernels.GroupNormBackward) {
	panic("ref: GroupNormBackward is to come")
}
func (Backend) Softmax(*kernels.Softmax)                   { panic("ref: Softmax is to come") }
func (Backend) SoftmaxBackward(*kernels.SoftmaxBackward)   { panic("ref: SoftmaxBackward is to come") }
func (Backend) LogSoftmaxGather(*kernels.LogSoftmaxGather) { panic("ref: LogSoftmaxGather is to come") }
func (Backend) LogSoftmaxGatherBackward(*kernels.LogSoftmaxGatherBackward) {
	panic("ref: LogSoftmaxGatherBackward is to come")
}
func (Backend) Embedding(*kernels.Embedding) { panic("ref: Embedding is to come") }
func (Backend) EmbeddingBackward(*kernels.EmbeddingBackward) {
	panic("ref: EmbeddingBackward is to come")
}
func (Backend) PackConv(kernels.Span, kernels.ConvShape, kernels.Math) *kernels.Packed {
	panic("ref: PackConv is to come")
}
func (Backend) Conv(*kernels.Conv)                         { panic("ref: Conv is to come") }
func (Backend) ConvBackward(*kernels.ConvBackward)         { panic("ref: ConvBackward is to come") }
func (Backend) Upsample(*kernels.Upsample)                 { panic("ref: Upsample is to come") }
func (Backend) UpsampleBackward(*kernels.UpsampleBackward) { panic("ref: UpsampleBackward is to come") }
func (Backend) Unary(*kernels.Unary)                       { panic("ref: Unary is to come") }
func (Backend) UnaryBackward(*kernels.UnaryBackward)       { panic("ref: UnaryBackward is to come") }
func (Backend) Binary(*kernels.Binary)                     { panic("ref: Binary is to come") }
func (Backend) Axpby(*kernels.Axpby)                       { panic("ref: Axpby is to come") }
func (Backend) Modulate(*kernels.Modulate)                 { panic("ref: Modulate is to come") }
func (Backend) ModulateBackward(*kernels.ModulateBackward) { panic("ref: ModulateBackward is to come") }
func (Backend) Gated(*kernels.Gated)                       { panic("ref: Gated is to come") }
func (Backend) GatedBackward(*kernels.GatedBackward)       { panic("ref: GatedBackward is to come") }
func (Backend) GLU(*kernels.GLU)                           { panic("ref: GLU is to come") }
func (Backend) GLUBackward(*kernels.GLUBackward)           { panic("ref: GLUBackward is to come") }
func (Backend) Fill(kernels.Span, float32)                 { panic("ref: Fill is to come") }
func (Backend) Copy(*kernels.Copy)                         { panic("ref: Copy is to come") }
func (Backend) SumRows(*kernels.SumRows)                   { panic("ref: SumRows is to come") }
func (Backend) Reduce(*kernels.Reduce)                     { panic("ref: Reduce is to come") }
func (Backend) Row(*kernels.Row)                           { panic("ref: Row is to come") }
func (Backend) AdamW(*kernels.AdamW)                       { panic("ref: AdamW is to come") }

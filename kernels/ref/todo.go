package ref

import "github.com/darkroom-rl/darkroom/kernels"

// Operations whose loops are still to come. Each line goes when its loop arrives.

func (Backend) Attention(*kernels.Attention) { panic("ref: Attention is to come") }
func (Backend) AttentionBackward(*kernels.AttentionBackward) {
	panic("ref: AttentionBackward is to come")
}
func (Backend) Rope(*kernels.Rope) { panic("ref: Rope is to come") }
func (Backend) PackConv(kernels.Span, kernels.ConvShape, kernels.Math) *kernels.Packed {
	panic("ref: PackConv is to come")
}
func (Backend) Conv(*kernels.Conv)                         { panic("ref: Conv is to come") }
func (Backend) ConvBackward(*kernels.ConvBackward)         { panic("ref: ConvBackward is to come") }
func (Backend) Upsample(*kernels.Upsample)                 { panic("ref: Upsample is to come") }
func (Backend) UpsampleBackward(*kernels.UpsampleBackward) { panic("ref: UpsampleBackward is to come") }

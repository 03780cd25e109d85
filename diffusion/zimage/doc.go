// Package zimage is the transformer of Z-Image (Tongyi, 2025, arXiv 2511.22699), with diffusers' parameter
// names (ZImageTransformer2DModel): picture and text are refined apart, then go through layers as one
// stream.
//
// Start with Model.Forward in model.go; layer.go is a layer, sequence.go how tokens become sequences of a
// multiple of 32, whose padding is seen. The time is the clean share, 1 - sigma, and the output points from
// clean to noise with the sign turned: pipelines negate it.
package zimage

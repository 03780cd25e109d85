// Package flux2 is the transformer of FLUX.2 (Black Forest Labs, 2025), with diffusers' parameter names
// (Flux2Transformer2DModel): layers of two streams, then layers of one, whose modulations are
// shared by all layers of a kind.
//
// Start with Model.Forward in model.go; double.go and single.go are the layers. A token is a 2 x 2 patch
// of the autoencoder's pictures; its place has four numbers: picture, row, column, and a word's number.
package flux2

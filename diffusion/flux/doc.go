// Package flux is the transformer of FLUX.1 (Black Forest Labs, 2024), with diffusers'
// parameter names: layers of two streams (package mmdit's), then layers of one.
//
// Start with Model.Forward in model.go; single.go is a layer of one stream, places.go the
// rotary places of tokens. Latents are packed: a token is a 2 x 2 patch of the VAE's
// pictures. Time and guidance are sigma and the scale as they are; the network multiplies
// by 1000.
package flux

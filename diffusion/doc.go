// Package diffusion is the pipelines: from a prompt to a trajectory to pixels.
//
// guidance.go and pack.go are its arithmetic in float64; the networks are one package a
// family below it.
package diffusion

// Package rng draws random numbers that have coordinates.
//
// Every draw is a function of a Key and an index; there is no generator whose state must be kept. A Key is made from
// the run's seed by naming the draw:
//
//	noise := rng.New(seed).With("step noise").Iteration(3).Prompt(17).Sample(2).Step(5)
//	noise.Normal(latent, 0)
//
// so any sample can be redrawn alone, and neither resuming, nor the composition
// of a batch, nor the number of threads can change a picture.
//
// Start with key.go (coordinates), then philox.go (words). Words are
// Philox4x32-10 as in Random123 and cuRAND and are the same on every machine;
// uniforms and normals are made from them with a fixed sequence of fp32
// operations (normal.go) and are the same on every CPU.
//
// The fill methods (Words, Uniform, Normal...) take a start, so that any part of
// a sequence can be drawn on its own. Stream draws one after another, for
// choices whose number of words is not known ahead (Intn, Shuffle).
package rng

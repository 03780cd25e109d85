// Package autograd is the tape: operations over values, and their backward.
//
//	tp := autograd.New(pool, autograd.Options{Train: true})
//	x := tp.Input(latents)                          // [B, S, C], B samples
//	h := tp.Norm(x, autograd.NormWith{Kind: kernels.RMSNorm, Weight: g, Eps: 1e-6})
//	y := tp.Linear(h, w, autograd.With{Bias: b, Act: kernels.SiLU, Residual: x})
//	loss, seed := autograd.Dot(y, g)                // or any float64 code over y.F32()
//	tp.Backward(seed)                               // adds to the gradients of parameters
//	tp.Reset()
//
// Start with tape.go (Tape, Value, Backward), then linear.go, which shows how an
// operation is written: the forward, and beside it the backward as a closure that
// saves what it reads. One file holds one family.
//
// A loss is numbers: the tape has no loss operations. Code outside computes a loss and
// its gradient at the network's outputs in float64, and hands the gradient to Backward
// as a Seed.
//
// # Shapes
//
// The first axis of a value counts samples, the last is the row that operations work
// along. The gradient of a parameter is formed for each sample alone and added in the
// order of the samples, so the size of a micro-batch cannot change a bit of it. Ragged
// gives lengths to samples that share one axis of rows. What does not come from samples
// (a table of positions) should be a parameter used by an operation on samples
// (AddParam), not a network's input of its own.
//
// # What is computed and what is kept
//
// A value needs a gradient if a trained parameter or a Variable leads to it. Nothing else
// is recorded: frozen weights get no gradients, and backward does not enter what lies
// before the first trained parameter. The forward is the same code, and gives the same
// bits, whether or not anything is recorded.
//
// Block is the unit of memory: values made in a block are let go at its end, except what
// it returns and what backward reads. With Options.Checkpoint a block, or some of them, keeps
// nothing but what it returns, and backward runs it again. Release lets one value go earlier.
package autograd

// Package toy is a policy that is small enough to be followed by hand: a linear
// network in float64 that denoises a few numbers. It takes part in training as a
// real model does, so the trainer's updates can be compared with recorded
// iterations of other implementations, digit by digit.
package toy

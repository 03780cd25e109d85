// Package iteration times whole iterations of training with random weights, in the code
// that samples and trains: a Stable Diffusion 3 transformer with adapters, the decoder
// of its autoencoder, and a vision-language model that answers.
//
// Start at Part.Run in iteration.go; grpo.go is the transformer's part (policy.go samples and trains it), decode.go the
// autoencoder's, answers.go the language model's. The keys of the results are those of a PyTorch program that does the
// same work, so that the two can be divided. Seconds are those of the clock, sizes MiB.
//
// Checks before the timing: a transition that was sampled has, when it is trained on for the first time, a ratio of
// exactly 1; a token that is read with kept keys and values has the logits of one that is read with its prompt.
package iteration

// Package rollout is the policy of conversations: it plays episodes, and says how likely their tokens are.
//
// Start with policy.go: a key is one episode of vision/tools, played with draws that are functions of the key.
// sampler.go samples a turn, batching.go many episodes at once, trees.go episodes with shared prefixes, guided.go
// answers that begin with part of a solution, engine.go by a server. views.go has the pictures that a key sees.
// evaluate.go has the log-probability of each token of an episode, with gradients; valuehead.go has the expected
// reward.
//
// Log-probabilities have two names. Sampled is of the distribution that was sampled from: temperature, top-k, top-p,
// banned tokens. Model is of the model at the same temperature, over its whole vocabulary: it is trained, and Eval
// returns it, bit for bit.
package rollout

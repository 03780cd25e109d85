// Package conversations trains vision-language models that look at pictures, call tools, get new
// pictures back and answer.
//
//	s, err := conversations.Open(dir, conversations.Options{Pool: pool})
//	p := &conversations.Policy{Speaker: s, Ask: ask, Protocol: protocol, Limits: limits, Sampling: sampling}
//	samples, err := p.Roll(trainer.Current, keys)       // a sample's decisions are its tokens
//
// Start with policy.go: a key is one episode of vision/tools, played with draws that are
// functions of the key. speaker.go is the model with the parts before its network, speech.go
// the sequence of tokens and pictures that it reads; sampler.go draws tokens, and evaluate.go says
// what log-probability each token of an episode has, with gradients.
//
// Log-probabilities have two names. Sampled is of the distribution that was drawn from:
// temperature, top-k, top-p, banned tokens. Spoken is of the model at the same temperature,
// over its whole vocabulary: that is what is trained, and what Eval answers, bit for bit.
package conversations

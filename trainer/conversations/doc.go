// Package conversations trains vision-language models that look at pictures, call tools, get new pictures back and
// answer.
//
//	vlm, err := chat.Open(dir, chat.Options{Pool: pool})
//	p := &rollout.Policy{VLM: vlm, Prompts: prompts, Protocol: protocol, Limits: limits, Sampling: sampling}
//	samples, err := p.Roll(trainer.Current, keys)       // a sample's decisions are its tokens
//
// Its packages, from the bottom up:
//
//	chat        the model with tokenizer, processor and template; prompts, instructions and videos as it reads them
//	augment     pictures with noise or black patches
//	toolserver  tools and environments behind servers and programs
//	lessons     demonstrations and judged answers of a file
//	rollout     the policy: a key is one episode of vision/tools; log-probabilities, gradients and values of its tokens
//
// This package has a run's model beside that: model.go opens it and sets an iteration up, credit.go spreads rewards
// over tokens, supervised.go learns from written answers, teacher.go distils, check.go compares rollout and training,
// record.go writes records, wire.go sends episodes between processes, memory.go predicts a run's memory.
package conversations

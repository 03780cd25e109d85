// Package trainer is the loop: (*Trainer).Step rolls samples, has them scored,
// compares the scores, blames decisions, moves the weights and remembers.
//
// A denoising step and a generated token are the same thing here, a decision: an action with the log-probability it
// had. So one loop serves every policy and every algorithm; differences are in an [Objective], an estimator of
// advantages or a [Memory], and Step asks for no name.
//
// Start at trainer.go. sample.go has the values passed between them; policy.go the interface of a model. There are
// four kinds of objective. policygradient.go judges the steps of a sampler, tokenpolicy.go the tokens of a language
// model, forwardprocess.go finished samples that it noises anew; rewardgradient.go follows the reward's own gradient
// through the picture. Package toy is a policy that is small enough to be followed by hand.
//
// Scores and advantages are float64, one a sample, and NaN is a missing score.
package trainer

// Package pictures trains models that make pictures: a folder of diffusers, of whose denoiser an adapter or
// some parameters are trained.
//
//	m, err := pictures.Open(experiment, model.Options{Backend: be, Train: prompts})
//	samples, err := m.Roll(trainer.Current, keys)      // a sample's decisions are steps of the sampler
//	items, err := m.Items(samples)                     // the pictures
//
// Start with policy.go, which rolls and computes outputs; model.go has a run's other methods. credit.go is for
// samples that are the leaves of trees, rewardgradient.go for objectives that follow a reward's gradient, offline.go
// for pictures that exist. objective.go makes an iteration's objective, check.go judges the policy before training,
// memory.go predicts a run's memory, record.go keeps the best and the worst picture.
package pictures

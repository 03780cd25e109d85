// Package ranks trains on several devices: models that hold the same weights, each on a device of its own, as
// one model.
//
//	m, err := ranks.Group{Backends: devices, Wire: wire, Limit: limit}.Open(options, open)
//
// Start with [Group] in group.go, which opens a model on every device, then [Model], which is all of them as a
// model.Model; [Policy] is its part that shares questions out. A loss is numbers here, and a network's outputs come
// to the host anyway, so the loop, rewards, advantages, objectives and the ledger know nothing of ranks. Questions
// are shared out, answers come back in their order, and only gradients travel between devices (kernels/exchange adds
// them up). Rank 0 is the first; a run's records are its business.
//
// Or ranks share the tokens of every pass ([Group].Tokens), and each has all questions and answers.
package ranks

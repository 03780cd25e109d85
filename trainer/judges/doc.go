// Package judges opens rewards: what [[reward]] of an experiment, and a command line, ask for becomes a judge
// of pictures, clips or replies, with its network on a device.
//
//	o, err := judges.Open(reward, judges.Bench{Device: device, Batch: 16})
//	results := o.Judge(ctx, items)       // the samples of one prompt
//
// Start with Open in open.go, which has the table of names. judge.go opens language models as judges,
// networks.go the rewards that are networks in a folder. Options are read and checked in trainer/experiment,
// which knows no network.
package judges

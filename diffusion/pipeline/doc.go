// Package pipeline is a folder of diffusers: from prompts to latents to pixels.
//
//	p, err := pipeline.Open("stable-diffusion-3.5-medium", pipeline.Options{Pool: pool, Precision: pipeline.BF16})
//	defer p.Close()
//	texts, err := p.Encode("a cat", "")                  // cached; each encoder is loaded and let go in turn
//	at, err := p.Shape(1024, 1024)
//	schedule, err := p.Schedule(28, at)
//	rows, err := p.Rows(schedule, 0)                     // of the folder's scheduler, or any of package sde
//	tracks, err := p.Sample(ctx, pictures, pipeline.Sampler{At: at, Rows: rows, Times: schedule.Timesteps, ...})
//	raw, err := p.Decode(tracks[0].Final, at)            // [H, W, 3], about -1 to 1
//
// Start with Open in pipeline.go, then ask.go (one question to the network, with guidance and
// its gradients), sample.go (the one loop for every family) and pull.go (gradients at latents). A family is a struct of
// functions (family.go): sd3.go, flux.go and sd.go say what is different in each.
//
// Pictures are [H, W, 3]. Latents are one sample's numbers as the network reads them,
// [h, w, C], or [tokens, 4C] where they are packed (FLUX); Shape says which. They are
// float64 on the host, each of them a value that fp32 has: they are small beside the
// network, and what a transition's log-probability is made of must be computed once, the
// same way in a rollout and in training. So a step is sde.Row's own Mean and Draw, and
// nothing here knows a second formula.
//
// Times are the schedule's timesteps: thousandths of a flow's sigma, steps of a ladder.
//
// Draws are functions of a picture's keys and the step alone: neither the batch, nor what
// else is sampled, nor the number of threads changes a picture.
package pipeline

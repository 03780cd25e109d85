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
// A pipeline is put together of parts (pipeline.go). Each owns its memory, and none knows the Pipeline:
//
//	loader       folder.go, weights.go            a folder's files; how weights come into memory
//	layout       latents.go                       shapes of latents
//	scheduler    scheduler.go                     times, and the folder's own solver
//	texts        text.go, encoder.go, prompt.go   text encoders, and encoded texts
//	denoiser     denoiser.go                      the networks, guidance, gradients at latents
//	autoencoder  autoencoder.go                   pictures to latents and back, gradients of pictures
//	conditioner  conditioning.go, sources.go      pictures that videos begin with, or edits are made of
//	cache        cache.go                         texts and latents on the disk
//
// sample.go is the one loop for every family; memory.go predicts its memory. A family of models is one value in one
// file: sd.go, sdxl.go, sd3.go, flux.go, kontext.go, flux2.go, qwen.go, zimage.go, wan.go. Families, in family.go,
// lists them; opened at a folder's settings, a family is an architecture of five small structs, which the parts are
// made with.
//
// Pictures are [H, W, 3]. Latents are one sample's numbers as the network reads them, [h, w, C], or [tokens, 4C]
// where they are packed (FLUX); Shape says which. They are float64 on the host, each of them a value that fp32 has:
// they are small beside the network, and the terms of a transition's log-probability must be computed once, the same
// way in a rollout and in training. So a step is sde.Row's own Mean and Draw, and nothing here knows a second
// formula.
//
// Times are the schedule's timesteps: thousandths of a flow's sigma, or training steps.
//
// Draws are functions of a picture's keys and the step alone: neither the batch, nor other samples, nor the number of
// threads change a picture.
package pipeline

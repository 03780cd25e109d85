// Package vae is the autoencoder of Wan 2.1 and 2.2 (Wan team, 2025): clips to latents and back, causal
// in time, with diffusers' parameter names (AutoencoderKLWan).
//
// Start with Model.Encode and Model.Decode in model.go; block.go says how a clip goes through in
// chunks, model.go how both halves are made of levels. A clip is frames [T, H, W, C], one clip a call;
// T is 1 + 4k frames, or 1 + k frames of latents.
package vae

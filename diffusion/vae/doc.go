// Package vae is the autoencoders between pictures and latents: AutoencoderKL of Stable
// Diffusion and FLUX, and AutoencoderTiny (TAESD), with diffusers' parameter names.
//
// Start with KL in kl.go and Tiny in tiny.go. Pictures are [B, H, W, 3] between -1 and 1,
// latents [B, h, w, C], channels last.
package vae

// Package unet is the U-Net of Stable Diffusion 1, 2 and XL (UNet2DConditionModel), with
// diffusers' parameter names.
//
// Start with Model.Forward in model.go; level.go is the levels, transformer.go what attends
// to text in them. Latents are pictures [B, H, W, C], channels last; time counts in steps of
// the schedule, from 0 to 999.
package unet

// Package mmdit is the transformer of Stable Diffusion 3 and 3.5 (MMDiT and MMDiT-X; Esser
// et al., 2024, "Scaling rectified flow transformers"), with diffusers' parameter names.
//
// Start with Model.Forward in model.go; block.go is one layer. Latents are pictures
// [B, H, W, C], channels last. Time is in thousandths: 1000·sigma.
package mmdit

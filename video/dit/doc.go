// Package dit is the transformer of Wan 2.1 and 2.2 (Wan team, 2025, "Wan: Open and advanced
// large-scale video generative models"), with diffusers' parameter names.
//
// Start with Model.Forward in model.go; block.go is one layer, with the rotary places of
// tokens. Latents are clips [B, T, H, W, C], channels last. Time is in thousandths,
// 1000·sigma: one number a sample, or one a frame of latents, where a given frame has time 0 (Wan 2.2 TI2V).
package dit

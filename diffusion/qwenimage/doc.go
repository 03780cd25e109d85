// Package qwenimage is the transformer of Qwen-Image (Qwen team, 2025, arXiv 2508.02324) and of its
// editing models, with diffusers' parameter names (QwenImageTransformer2DModel).
//
// Start with Model.Forward in model.go; layers are package mmdit's, places.go has the rotary places of
// tokens. Latents are packed: a token is a 2 x 2 patch of the autoencoder's pictures. The time is
// sigma; the network multiplies by 1000.
package qwenimage

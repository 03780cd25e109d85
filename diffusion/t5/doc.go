// Package t5 is the encoder half of T5 (v1.1) and UMT5 (Raffel et al., 2020; Chung et al.,
// 2023), with the hub's parameter names: text encoders of SD3, FLUX and Wan.
//
// Start with Model.Forward in model.go; bias.go is the relative positions.
package t5

// Package preference is reward networks on Qwen2-VL that were trained on what people prefer: VideoReward
// (VideoAlign; Liu et al., 2025), which reads a clip, HPSv3 (Ma et al., 2025), which reads a picture, and EditReward
// (Wu et al., 2025), which reads a picture before and after an edit.
//
// Start with Network in network.go; prompts.go is what they are asked, frames.go which frames of a clip they
// read and how large. Each has a head on the states of tokens that stand in the prompt for the answer.
package preference

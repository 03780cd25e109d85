// Package preference has reward networks on Qwen2-VL that were trained on people's preferences: VideoReward
// (VideoAlign; Liu et al., 2025), which reads a clip, HPSv3 (Ma et al., 2025), which reads a picture, and EditReward
// (Wu et al., 2025), which reads a picture before and after an edit.
//
// Start with Network in network.go; prompts.go has their prompts, frames.go selects the frames of a clip and their
// size. Each has a head on the states of tokens that stand in the prompt for the answer.
package preference

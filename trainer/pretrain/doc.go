// Package pretrain makes the embedded models from nothing but a recipe: a small
// text-to-picture model in the layout of a StableDiffusion3Pipeline, trained on
// the scenes of vision/scenes.
//
//	r, err := pretrain.Read("assets/tiny-sd3.toml", nil)
//	err = pretrain.Run(r, "models/tiny-sd3", pretrain.Hooks{Say: log})
//
// Start with Run in run.go, which reads as the stages follow each other: an
// autoencoder (autoencoder.go), its decoder once more for crispness, and text
// encoders with the transformer by flow matching (flow.go), judged on held-out
// captions as they go (judge.go), and trained on in phases with other captions.
// Towers in towers.go is the other kind of recipe: a CLIP, by contrast
// (towers.go). Talker in talker.go is the third: a
// Qwen2.5-VL that talks about tables of cards (talk.go), judged by
// talker.go. Detector in detector.go is a Mask2Former that finds the parts of
// scenes, by the loss of masks.go.
//
// Everything is drawn by coordinates of the recipe's seed: the same recipe makes
// the same bytes on any machine, and a run that was stopped resumes to the same bytes
// (run.go).
//
// Latents are [H, W, C], channels last; times run from 1 (noise) to 0.
package pretrain

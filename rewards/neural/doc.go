// Package neural is rewards that networks compute from vectors of pictures and texts, with
// their gradients with respect to pixels.
//
//	match.go       the cosine of a picture and its prompt: CLIP score, PickScore, HPSv2
//	scalings.go    what published projects make of that cosine, by name
//	aesthetic.go   a linear head on a picture's vector
//	likeness.go    DINO: how alike two pictures are, how constant a clip's subject
//	patches.go     how alike they are patch by patch, in LPIPS's form; identity.go: a part of them
//	colors.go      GenEval's classifier of an object's colour
//	reward.go      all of them as package rewards asks for rewards
//
// Start with Towers and Pictures in vectors.go: what a network must do. Packages vision/clip
// and vision/dino have some that do.
//
// A score of a picture of bytes goes through the pipeline that the weights were published
// with. Gradients are those of the same score over numbers, vision.Pixels, without the
// roundings to bytes (SRPO's form), so the two values differ in the second or third decimal.
package neural

// Package neural is rewards that networks compute from vectors of pictures and texts, with
// their gradients with respect to pixels.
//
//	match.go       the cosine of a picture and its prompt: CLIP score, PickScore, HPSv2
//	scalings.go    the scalings of that cosine in published projects, by name
//	aesthetic.go   a linear head on a picture's vector
//	imagereward.go a BLIP that reads the prompt while it looks
//	likeness.go    DINO: how alike two pictures, their patches or a part of them are, how constant a clip's subject
//	direction.go   whether a picture changed as its texts did, by CLIP
//	geneval.go     GenEval's rules over boxes of a detector, and its classifier of an object's colour
//	reward.go      all of them as package rewards asks for rewards
//
// Start with Towers and Pictures in vectors.go: the interface of a network. Packages vision/clip and vision/dino have
// some that do.
//
// A score of a picture of bytes goes through the pipeline that the weights were published
// with. Gradients are those of the same score over numbers, vision.Pixels, without the
// roundings to bytes (SRPO's form), so the two values differ in the second or third decimal.
package neural

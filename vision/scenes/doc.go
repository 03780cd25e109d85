// Package scenes draws captioned pictures by rule, with the truth beside them:
// which objects lie where, which word is written. They are the training data of
// the embedded models, and the ground on which rewards are judged.
//
//	s := scenes.Random(rng.New(7).With("scene").Draw(), scenes.Everything)
//	px := s.Draw(scenes.Jitter(rng.New(7).With("jitter").Draw()))
//	score := s.Score(px)          // Task, Strict, Clean, Total
//
// Start with Scene in scene.go; Parse reads one back from its caption. draw.go
// makes pixels, score.go judges any pixels against a scene, without a learnt
// model. noise.go makes captions wrong, as captions of the web are.
//
// Pictures are Size x Size pixels of three bytes, row by row. Boxes are
// [x0, y0, x1, y1] in pixels, y downwards.
package scenes

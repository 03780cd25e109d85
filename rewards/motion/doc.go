// Package motion measures how a clip moves, by its optical flow: how much, how smoothly, and
// whether the motion is true, that is, whether frames are the one before, moved.
//
//	s, err := motion.StepsOf(ctx, clip, flow.DIS{})
//	q := s.Quality()         // q.Value: true motion, 0 to 1; the parts say why
//	d, err := s.Dynamic()    // VBench's dynamic degree
//
// Start with Steps in steps.go, the numbers of a clip's flow that every measure reads. motion.go has VBench's dynamic
// degree, stability.go VBench's flicker and smoothness, and the warping error of Lai et al. Each can be gamed without
// motion or by noise, and its card says how. quality.go has the measure that rewards use.
//
// Frames are 8-bit RGB; lengths are in pixels. A clip for which a number does not exist gives
// an error, never 0.
package motion

// Package flow finds where pixels go from one frame to the next (dense optical flow);
// view/field draws it.
//
//	f, err := flow.Farneback{}.Flow(flow.Gray{w, h, first}, flow.Gray{w, h, second})
//	d, err := flow.DIS{Preset: flow.Medium}.Between(clip, 0, 1)
//
// Start with Farneback in farneback.go, the steady one, or DIS in dis.go, the quick one. Both
// are OpenCV's algorithms with its defaults, and give its flows to a fraction of a hundredth
// of a pixel (Farneback) or its end-point errors (DIS).
//
// Pictures are planes of fp32 whose rows are padded to whole vectors (plane.go). The loops
// that cost time are rows at a time (rows.go): in assembly where gen wrote it, in plain Go
// elsewhere, with the same bits. Work is split by rows, so a flow does not depend on the
// number of threads.
package flow

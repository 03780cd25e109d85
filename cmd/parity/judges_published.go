package main

// Card: VideoAlign (KwaiVGI/VideoAlign, inference.py) puts a head on a vision-language model and
// takes three numbers of a clip: visual quality, motion quality, alignment with the text. Each is
// normalised by the mean and deviation of its training set, and they are added up.

// videoAlignMarks are its three numbers.
type videoAlignMarks struct{ Visual, Motion, Alignment float64 }

// overall is their sum.
func (v videoAlignMarks) overall() float64 { return v.Visual + v.Motion + v.Alignment }

// A videoAlignNorm is what to take off, and what to divide by.
type videoAlignNorm struct{ mean, deviation videoAlignMarks }

// of normalises.
func (n videoAlignNorm) of(v videoAlignMarks) videoAlignMarks {
	return videoAlignMarks{(v.Visual - n.mean.Visual) / n.deviation.Visual, (v.Motion - n.mean.Motion) / n.deviation.Motion, (v.Alignment - n.mean.Alignment) / n.deviation.Alignment}
}

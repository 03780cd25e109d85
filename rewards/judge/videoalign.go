package judge

// Card: VideoAlign (KwaiVGI/VideoAlign, inference.py) puts a head on a vision-language model and
// takes three numbers of a clip: visual quality, motion quality, alignment with the text. Each is
// normalised by the mean and deviation of its training set, and they are added up.
// Invariant (test): the means themselves are 0.

// VideoAlign are its three numbers.
type VideoAlign struct{ Visual, Motion, Alignment float64 }

// Overall is their sum.
func (v VideoAlign) Overall() float64 { return v.Visual + v.Motion + v.Alignment }

// A Norm is what to take off, and what to divide by.
type Norm struct{ Mean, Deviation VideoAlign }

// Of normalises.
func (n Norm) Of(v VideoAlign) VideoAlign {
	return VideoAlign{(v.Visual - n.Mean.Visual) / n.Deviation.Visual, (v.Motion - n.Mean.Motion) / n.Deviation.Motion, (v.Alignment - n.Mean.Alignment) / n.Deviation.Alignment}
}

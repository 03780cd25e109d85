package onnx

import "time"

// Limits bound a run of strangers' files.
type Limits struct {
	File  int64         // bytes of the file, and of the files beside it
	Bytes int64         // of tensors in memory at once, constants apart
	Work  int64         // multiply-adds of products and convolutions, and elements of other operators
	Steps int           // nodes that run, those of loops counted each time
	Time  time.Duration // of a run
}

// DefaultLimits are large enough for the largest scorers that a CPU can run.
func DefaultLimits() Limits {
	return Limits{File: 8 << 30, Bytes: 16 << 30, Work: 1 << 44, Steps: 1 << 20, Time: 10 * time.Minute}
}

// filled takes the default for every limit that is 0.
func (l Limits) filled() Limits {
	d := DefaultLimits()
	if l.File == 0 {
		l.File = d.File
	}
	if l.Bytes == 0 {
		l.Bytes = d.Bytes
	}
	if l.Work == 0 {
		l.Work = d.Work
	}
	if l.Steps == 0 {
		l.Steps = d.Steps
	}
	if l.Time == 0 {
		l.Time = d.Time
	}
	return l
}

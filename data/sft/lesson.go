package sft

import (
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// A Lesson is a conversation to learn from: a token a merged cell of pictures, and which tokens
// are trained.
type Lesson struct {
	IDs     []int32
	Trained []bool
}

// add appends tokens that are all trained, or all not.
func (l *Lesson) add(ids []int32, trained bool) {
	l.IDs = append(l.IDs, ids...)
	for range ids {
		l.Trained = append(l.Trained, trained)
	}
}

// Labels are the trained tokens, and -100 for the others, as upstream has them.
func (l Lesson) Labels() []int32 {
	labels := make([]int32, len(l.IDs))
	for i, id := range l.IDs {
		if labels[i] = -100; l.Trained[i] {
			labels[i] = id
		}
	}
	return labels
}

// Count is how many tokens are trained. The first has no token before it that could say it.
func (l Lesson) Count() int {
	n := 0
	for i, on := range l.Trained {
		if on && i > 0 {
			n++
		}
	}
	return n
}

// A Reader makes lessons of conversations whose pictures have been cut into patches.
type Reader struct {
	Tokens   *tokenizer.Tokenizer
	Template vlm.Template
	Marks    vlm.Marks
	Merge    int // patches of a token's side
}

// expanded has a token for each merged cell of the pictures and of the clips.
func (r Reader) expanded(l Lesson, pictures, clips []vlm.Grid) (Lesson, error) {
	ids, _, err := r.Marks.Expand(l.IDs, pictures, clips, r.Merge)
	if err != nil {
		return Lesson{}, err
	}
	trained := make([]bool, 0, len(ids))
	for i, id := range l.IDs {
		n := 1
		switch id {
		case r.Marks.Picture:
			n, pictures = pictures[0].Tokens(r.Merge), pictures[1:]
		case r.Marks.Clip:
			n, clips = clips[0].Tokens(r.Merge), clips[1:]
		}
		for range n {
			trained = append(trained, l.Trained[i])
		}
	}
	return Lesson{ids, trained}, nil
}

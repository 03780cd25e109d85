package vlm

import "fmt"

// Card: multimodal rotary indices (M-RoPE, Qwen2-VL, arXiv 2409.12191). A token has three: time,
// row, column. Text counts all three together; a picture that begins at s has
//
//	(s + int(frame · seconds · per second), s + row, s + column)
//
// of its merged cells, and the following tokens go on at s + max(rows, columns), or, in the original code, at the
// largest index so far + 1. The two differ for clips whose time ran further; the published weights were trained with
// the original. Frames are scaled in clips of Qwen2.5-VL alone, in fp32; Qwen3-VL writes every frame as a picture of
// its own.
//
// The sequence is walked whole: an observation that brings a picture moves every index behind
// it. New tokens sit at their place in the sequence + Delta. The invariant: indices depend on
// nothing to their right. Held to vlm.rope_index and vlm.rope_index_classic.

// Kinds of tokens.
const (
	TextToken    = 0
	PictureToken = 1
	ClipToken    = 2
)

// A PositionRule has the differences between models and their codes.
type PositionRule struct {
	Merge     int
	PerSecond float64 // indices a second of clips; 0: a frame is one index
	ByFrame   bool    // a clip's frames are pictures with text between (Qwen3-VL)
	Largest   bool    // go on at the largest index + 1 (the original code)
	Padding   int     // the index of tokens that are masked
}

// A Sequence has the inputs of positions.
type Sequence struct {
	Kinds    []int  // of tokens
	Real     []bool // false is padding; nil: none is
	Pictures []Grid
	Clips    []Grid
	Seconds  []float64 // a frame of each clip; nil: 1
}

// Positions are the tokens' three indices, and Delta: the next token's index less the number
// of real tokens.
func (r PositionRule) Positions(s Sequence) (at [3][]int, delta int, err error) {
	clips, err := r.clips(s)
	if err != nil {
		return at, 0, err
	}
	if s.Real != nil && len(s.Real) != len(s.Kinds) {
		return at, 0, fmt.Errorf("%d tokens and a mask of %d", len(s.Kinds), len(s.Real))
	}
	for axis := range at {
		at[axis] = make([]int, len(s.Kinds))
		for i := range at[axis] {
			at[axis][i] = r.Padding
		}
	}
	var tokens []int // where real ones are
	for i := range s.Kinds {
		if s.Real == nil || s.Real[i] {
			tokens = append(tokens, i)
		}
	}
	pictures := plain(s.Pictures)
	next, largest := 0, -1
	for k := 0; k < len(tokens); {
		kind := s.Kinds[tokens[k]]
		if kind == TextToken {
			for axis := range at {
				at[axis][tokens[k]] = next
			}
			largest = max(largest, next)
			next++
			k++
			continue
		}
		var p paced
		switch {
		case kind == PictureToken && len(pictures) > 0:
			p, pictures = pictures[0], pictures[1:]
		case kind == ClipToken && len(clips) > 0:
			p, clips = clips[0], clips[1:]
		default:
			return at, 0, fmt.Errorf("token %d belongs to a picture of which there is no grid", tokens[k])
		}
		n := p.Tokens(r.Merge)
		for i := k; i < k+n; i++ {
			if i == len(tokens) || s.Kinds[tokens[i]] != kind {
				return at, 0, fmt.Errorf("a picture of %d tokens has %d in the sequence", n, i-k)
			}
		}
		largest = max(largest, p.place(&at, tokens[k:k+n], next, r.Merge))
		next += max(p.Rows, p.Columns) / r.Merge
		if r.Largest {
			next = largest + 1
		}
		k += n
	}
	if len(pictures)+len(clips) > 0 {
		return at, 0, fmt.Errorf("%d pictures and %d clips have no tokens in the sequence", len(pictures), len(clips))
	}
	return at, largest + 1 - len(tokens), nil
}

// paced is a grid and how far in time its frames are apart.
type paced struct {
	Grid
	pace float32
}

func plain(grids []Grid) []paced {
	all := make([]paced, len(grids))
	for i, g := range grids {
		all[i] = paced{g, 1}
	}
	return all
}

// clips are the clips' grids, or their frames'.
func (r PositionRule) clips(s Sequence) ([]paced, error) {
	if err := Check(append(append([]Grid{}, s.Pictures...), s.Clips...), r.Merge); err != nil {
		return nil, err
	}
	if s.Seconds != nil && len(s.Seconds) != len(s.Clips) {
		return nil, fmt.Errorf("%d clips and the seconds of %d", len(s.Clips), len(s.Seconds))
	}
	if r.ByFrame {
		var frames []Grid
		for _, g := range s.Clips {
			for range g.Frames {
				frames = append(frames, Grid{1, g.Rows, g.Columns})
			}
		}
		return plain(frames), nil
	}
	all := plain(s.Clips)
	for i := range all {
		if r.PerSecond == 0 {
			continue
		}
		all[i].pace = float32(r.PerSecond)
		if s.Seconds != nil {
			all[i].pace = float32(r.PerSecond) * float32(s.Seconds[i])
		}
		if last := all[i].pace * float32(all[i].Frames); !(last >= 0 && last < 1<<30) {
			return nil, fmt.Errorf("clip %d: %d frames of %g seconds", i, all[i].Frames, s.Seconds[i])
		}
	}
	return all, nil
}

// place writes a grid's indices, and is the largest of them.
func (p paced) place(at *[3][]int, tokens []int, from, merge int) (largest int) {
	rows, columns := p.Rows/merge, p.Columns/merge
	for i, t := range tokens {
		frame, cell := i/(rows*columns), i%(rows*columns)
		at[0][t] = from + int(float32(frame)*p.pace)
		at[1][t] = from + cell/columns
		at[2][t] = from + cell%columns
		largest = max(largest, at[0][t], at[1][t], at[2][t])
	}
	return largest
}

// Card: the order of patches in the vision tower. Patches come block by block of merge x merge,
// so that a merged cell is a stretch of the list. Towers that attend within windows (Qwen2.5-VL)
// reorder merged cells window by window, side x side cells each, cut at the picture's edge;
// layers that see everything attend within a frame. Both are ends of stretches in the list.
// Source: transformers, vision_utils.py. The invariant: windows hold each cell once.

// A Place is a patch's row and column in its frame.
type Place struct{ Row, Column int }

// Places are the patches' places in the order of the list.
func Places(grids []Grid, merge int) ([]Place, error) {
	if err := Check(grids, merge); err != nil {
		return nil, err
	}
	var all []Place
	for _, g := range grids {
		for range g.Frames {
			for y := 0; y < g.Rows; y += merge {
				for x := 0; x < g.Columns; x += merge {
					for i := range merge * merge {
						all = append(all, Place{y + i/merge, x + i%merge})
					}
				}
			}
		}
	}
	return all, nil
}

// FrameEnds are where frames end in the list of patches, 0 before them.
func FrameEnds(grids []Grid) []int {
	ends := []int{0}
	for _, g := range grids {
		for range g.Frames {
			ends = append(ends, ends[len(ends)-1]+g.Rows*g.Columns)
		}
	}
	return ends
}

// Windows are the merged cells in the order of windows of this number of pixels, and the ends of windows in the list
// of patches, 0 before them.
func Windows(grids []Grid, merge, pixels, patch int) (order, ends []int, err error) {
	if err := Check(grids, merge); err != nil {
		return nil, nil, err
	}
	if patch < 1 || pixels/merge/patch < 1 {
		return nil, nil, fmt.Errorf("windows of %d pixels hold no cell of %d x %d patches of %d", pixels, merge, merge, patch)
	}
	side := pixels / merge / patch
	ends = []int{0}
	base := 0
	for _, g := range grids {
		rows, columns := g.Rows/merge, g.Columns/merge
		for range g.Frames {
			for y := 0; y < rows; y += side {
				for x := 0; x < columns; x += side {
					for cy := y; cy < min(y+side, rows); cy++ {
						for cx := x; cx < min(x+side, columns); cx++ {
							order = append(order, base+cy*columns+cx)
						}
					}
					ends = append(ends, len(order)*merge*merge)
				}
			}
			base += rows * columns
		}
	}
	return order, ends, nil
}

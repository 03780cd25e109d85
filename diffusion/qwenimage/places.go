package qwenimage

// A Picture is tokens of h x w in rows.
type Picture struct{ Rows, Cols int }

// Len is the number of its tokens.
func (p Picture) Len() int { return p.Rows * p.Cols }

// places are those of pictures, the one that is made first, and of text behind them. A picture's index is its
// number, its rows and columns are counted from the middle: -(n - n/2) ... n/2-1. Text goes on from
// the largest n/2 of all sides, the same number on every axis.
func places(pictures []Picture, words int) (all [][]float32) {
	most := 0
	for i, p := range pictures {
		top, left := p.Rows-p.Rows/2, p.Cols-p.Cols/2
		for y := range p.Rows {
			for x := range p.Cols {
				all = append(all, []float32{float32(i), float32(y - top), float32(x - left)})
			}
		}
		most = max(most, p.Rows/2, p.Cols/2)
	}
	for i := range words {
		at := float32(most + i)
		all = append(all, []float32{at, at, at})
	}
	return all
}

package vlm

import "fmt"

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

// Windows are the merged cells in the order of windows of so many pixels, and where windows
// end in the list of patches, 0 before them.
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

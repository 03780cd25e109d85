package vlm

import "fmt"

// A Grid is a picture or a clip in patches: frames (pairs of frames where the processor joins
// two), rows and columns. A picture has one frame. Pictures reach the tower as lists of
// patches, and the grid is what says where each belongs.
type Grid struct{ Frames, Rows, Columns int }

// maxPatches is more than any picture or clip has: of a list of grids, all together.
const maxPatches = 1 << 24

// Patches is how many patches there are.
func (g Grid) Patches() int { return g.Frames * g.Rows * g.Columns }

// Tokens is how many tokens of the language model a grid becomes: merge x merge patches one.
func (g Grid) Tokens(merge int) int { return g.Frames * (g.Rows / merge) * (g.Columns / merge) }

// Check refuses grids that cannot be merged, or that no memory holds.
func Check(grids []Grid, merge int) error {
	if merge < 1 || merge > 64 {
		return fmt.Errorf("patches are merged %d by %d: from 1 to 64 is possible", merge, merge)
	}
	room := maxPatches
	for i, g := range grids {
		if g.Frames < 1 || g.Rows < 1 || g.Columns < 1 {
			return fmt.Errorf("grid %d of %d x %d x %d patches holds nothing", i, g.Frames, g.Rows, g.Columns)
		}
		if g.Frames > room || g.Rows > room/g.Frames || g.Columns > room/(g.Frames*g.Rows) {
			return fmt.Errorf("grid %d of %d x %d x %d patches: with those before it more than %d", i, g.Frames, g.Rows, g.Columns, maxPatches)
		}
		room -= g.Patches()
		if g.Rows%merge != 0 || g.Columns%merge != 0 {
			return fmt.Errorf("grid %d of %d x %d patches is not made of blocks of %d x %d", i, g.Rows, g.Columns, merge, merge)
		}
	}
	return nil
}

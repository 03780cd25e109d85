package scenes

import "slices"

// Ground is the share of pixels of the background's colour, of all that have a background's: what
// Score's formulas hardly look at. It sees backgrounds that drift while the objects become better.
func (s Scene) Ground(px []uint8) float64 {
	k := uint8(len(Colors) + slices.Index(Backgrounds, s.Background))
	right, all := 0, 0
	for _, near := range segment(px).near {
		if int(near) >= len(Colors) {
			all++
		}
		if near == k {
			right++
		}
	}
	return float64(right) / float64(max(1, all))
}

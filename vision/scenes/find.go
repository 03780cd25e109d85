package scenes

import (
	"fmt"
	"slices"
)

// A Thing is a region of one of Colors, and the shape that it is most like.
type Thing struct {
	Color, Shape string
	Box          Box
	Likeness     float64 // intersection over union with that shape in its box
}

// Find is everything that stands out in a picture of Size x Size x 3: by colour, then as rows
// are read. Regions of fewer than minArea pixels are specks.
func Find(px []uint8) ([]Thing, error) {
	if err := sized(px); err != nil {
		return nil, err
	}
	var things []Thing
	for _, c := range segment(px).components() {
		like := make([]float64, len(Shapes))
		for i, shape := range Shapes {
			like[i] = c.likeness(shape)
		}
		best := slices.Index(like, slices.Max(like))
		things = append(things, Thing{Colors[c.color], Shapes[best], c.box(), like[best]})
	}
	return things, nil
}

// sized refuses pictures of another size.
func sized(px []uint8) error {
	if len(px) != Size*Size*3 {
		return fmt.Errorf("a picture of %d bytes is no scene: %d x %d pixels of three were expected", len(px), Size, Size)
	}
	return nil
}

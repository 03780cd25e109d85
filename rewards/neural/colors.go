package neural

import (
	"context"
	"encoding/hex"
	"fmt"
	"image/color"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: GenEval's colours (djghosh13/geneval, ImageCrops and color_classification). Outside an
// object's mask the picture becomes gray; its box is cut out, corners rounded half to even;
// CLIP says which colour's sentences it is nearest to:
//
//	class vector   the unit vector of the mean of the unit vectors of "a photo of a C X",
//	               "a photo of a C-colored X" and "a photo of a C object", for class X
//	logits         100 <picture, class vector>, and the largest is the colour
//
// Upstream runs open_clip's ViT-L/14 of OpenAI. The classifier of a class is computed once
// and kept by the towers' memory of texts. Held to neural.geneval_color.
type Colors struct {
	Towers Towers
	// Background is painted outside masks: "#999" in upstream, any "#rgb" or "#rrggbb", or
	// "original" for none. "" is "#999".
	Background string
	WholeImage bool // nothing is cut out (upstream's crop=0)
}

// ColorNames are GenEval's colours.
func ColorNames() []string {
	return []string{"red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white"}
}

var colorSentences = []string{"a photo of a %s %s", "a photo of a %s-colored %s", "a photo of a %s object"}

// An Object is something in a picture.
type Object struct {
	Box  boxes.Box
	Mask []bool // of the whole picture, row by row; nil where there is none
}

// A Coloring is what the classifier says of an object.
type Coloring struct {
	Name   string
	Logits []float64 // one a color
}

// Of names the colours of objects of one class.
func (c Colors) Of(ctx context.Context, m *vision.Image, class string, objects []Object) ([]Coloring, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	classes, err := c.Classifier(ctx, class)
	if err != nil {
		return nil, err
	}
	crops, err := c.Crops(m, objects)
	if err != nil {
		return nil, err
	}
	vectors, err := c.Towers.Images(ctx, crops)
	if err != nil {
		return nil, err
	}
	out := make([]Coloring, len(vectors))
	names := ColorNames()
	for i, x := range vectors {
		u, _, err := unit(x)
		if err != nil {
			return nil, err
		}
		best := 0
		for k, v := range classes {
			out[i].Logits = append(out[i].Logits, 100*dot(u, v))
			if out[i].Logits[k] > out[i].Logits[best] {
				best = k
			}
		}
		out[i].Name = names[best]
	}
	return out, nil
}

// Classifier is a unit vector a colour, for objects of a class.
func (c Colors) Classifier(ctx context.Context, class string) ([][]float64, error) {
	var texts []string
	for _, name := range ColorNames() {
		for _, s := range colorSentences {
			if strings.Count(s, "%s") == 2 {
				texts = append(texts, fmt.Sprintf(s, name, class))
			} else {
				texts = append(texts, fmt.Sprintf(s, name))
			}
		}
	}
	vectors, err := c.Towers.Texts(ctx, texts)
	if err != nil {
		return nil, err
	}
	if vectors, err = units(vectors); err != nil {
		return nil, err
	}
	var classes [][]float64
	for n := len(colorSentences); len(vectors) > 0; vectors = vectors[n:] {
		mean := make([]float64, len(vectors[0]))
		for _, v := range vectors[:n] {
			for i, x := range v {
				mean[i] += x / float64(n)
			}
		}
		u, _, err := unit(mean)
		if err != nil {
			return nil, err
		}
		classes = append(classes, u)
	}
	return classes, nil
}

// Crops are the pictures that the classifier sees.
func (c Colors) Crops(m *vision.Image, objects []Object) ([]*vision.Image, error) {
	paper, painted, err := c.background()
	if err != nil {
		return nil, err
	}
	var out []*vision.Image
	for i, o := range objects {
		seen := m
		if o.Mask != nil && len(o.Mask) != m.Width*m.Height {
			return nil, fmt.Errorf("object %d: a mask of %d pixels on a picture of %d x %d", i, len(o.Mask), m.Width, m.Height)
		}
		if o.Mask != nil && painted {
			seen = m.Clone()
			for at, inside := range o.Mask {
				if !inside {
					copy(seen.Pix[3*at:], []uint8{paper.R, paper.G, paper.B})
				}
			}
		}
		if !c.WholeImage {
			if seen, err = seen.CropBox(o.Box[0], o.Box[1], o.Box[2], o.Box[3]); err != nil {
				return nil, fmt.Errorf("object %d: %w", i, err)
			}
		}
		out = append(out, seen)
	}
	return out, nil
}

func (c Colors) background() (paper color.RGBA, painted bool, err error) {
	said := c.Background
	switch {
	case said == "original":
		return paper, false, nil
	case said == "":
		said = "#999"
	}
	digits, ok := strings.CutPrefix(said, "#")
	if len(digits) == 3 {
		digits = string([]byte{digits[0], digits[0], digits[1], digits[1], digits[2], digits[2]})
	}
	rgb, err := hex.DecodeString(digits)
	if !ok || err != nil || len(rgb) != 3 {
		return paper, false, fmt.Errorf(`background %q: "#999", "#999999" or "original" was expected`, c.Background)
	}
	return color.RGBA{rgb[0], rgb[1], rgb[2], 255}, true, nil
}

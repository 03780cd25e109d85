package rewards

import "fmt"

// LikenessOptions say what of a picture is compared with the one that it was made of (package neural).
type LikenessOptions struct {
	Of string `toml:"of" enum:"whole,patches,subject" doc:"the picture as a whole; its patches outside of meta.changes, which is LPIPS's form; or what the box meta.subject holds, its identity"`
}

// SetDefaults is the whole picture.
func (o *LikenessOptions) SetDefaults() { o.Of = "whole" }

// Subject is the box meta.subject = [x0, y0, x1, y1], in pixels of the picture before.
func Subject(meta Meta) (box [4]float64, err error) {
	if err = meta.Read("subject", &box); err == nil && (box[2] <= box[0] || box[3] <= box[1]) {
		err = fmt.Errorf("meta.subject is %v, which holds nothing", box)
	}
	if err != nil {
		err = fmt.Errorf("%w\nhint: a box [x0, y0, x1, y1] in pixels of the picture before", err)
	}
	return box, err
}

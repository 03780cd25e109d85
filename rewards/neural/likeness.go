package neural

import (
	"context"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/dino"
)

// Card: how alike the contents of pictures are: the cosine of their vectors by DINO.
//
//	likeness      <u, v> of a picture and a reference
//	consistency   of a clip, VBench's subject_consistency: over frames t = 2.. the mean of
//	              (max(0, <u_t, u_t-1>) + max(0, <u_t, u_1>)) / 2
//	              and, by a CLIP's picture tower, its background_consistency
//
// VBench resizes frames without smoothing, here they are resized as each network's pictures are.
// A clip that does not move is perfectly consistent: combine it with motion.
// Invariants (tests): equal frames give 1; gradients agree with differences. Held to
// neural.dino.
type Likeness struct {
	Pictures Pictures
	// Reference returns the picture to compare a sample with, for likeness.
	Reference func(ctx context.Context, item rewards.Item) (*vision.Image, error)
}

// Cosine is the likeness of vectors.
func Cosine(x, y []float64) (float64, error) {
	u, _, err := unit(x)
	if err != nil {
		return 0, err
	}
	v, _, err := unit(y)
	if err != nil {
		return 0, err
	}
	if len(u) != len(v) {
		return 0, fmt.Errorf("vectors of %d and %d numbers", len(u), len(v))
	}
	return dot(u, v), nil
}

// Images are the likenesses of pictures and their references.
func (l Likeness) Images(ctx context.Context, pictures, references []*vision.Image) ([]float64, error) {
	if len(pictures) != len(references) {
		return nil, fmt.Errorf("%d pictures and %d references", len(pictures), len(references))
	}
	x, err := l.Pictures.Images(ctx, pictures)
	if err != nil {
		return nil, err
	}
	y, err := l.Pictures.Images(ctx, references)
	if err != nil {
		return nil, fmt.Errorf("references: %w", err)
	}
	out := make([]float64, len(x))
	for i := range x {
		if out[i], err = Cosine(x[i], y[i]); err != nil {
			return nil, fmt.Errorf("picture %d: %w", i, err)
		}
	}
	return out, nil
}

// Gradient is the likenesses of pictures of numbers and their references, and how each number
// changes its picture's.
func (l Likeness) Gradient(ctx context.Context, pictures []vision.Pixels, references []*vision.Image) ([]float64, [][]float32, error) {
	if len(pictures) != len(references) {
		return nil, nil, fmt.Errorf("%d pictures and %d references", len(pictures), len(references))
	}
	y, err := l.Pictures.Images(ctx, references)
	if err == nil {
		y, err = units(y)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("references: %w", err)
	}
	return pointwise(ctx, l.Pictures, pictures, func(i int, u []float64) (float64, []float64) { return dot(u, y[i]), y[i] })
}

var errOneFrame = errors.New("consistency over time needs a clip of two frames or more")

// Consistency is that of a clip's frames, and the share of each frame after the first.
func (l Likeness) Consistency(ctx context.Context, frames []*vision.Image) (float64, []float64, error) {
	vectors, err := l.Pictures.Images(ctx, frames)
	if err != nil {
		return 0, nil, err
	}
	return Consistency(vectors)
}

// Consistency is that of frames' vectors.
func Consistency(vectors [][]float64) (mean float64, each []float64, err error) {
	u, err := units(vectors)
	if err != nil {
		return 0, nil, err
	}
	if len(u) < 2 {
		return 0, nil, errOneFrame
	}
	for t := 1; t < len(u); t++ {
		each = append(each, (max(0, dot(u[t], u[t-1]))+max(0, dot(u[t], u[0])))/2)
		mean += each[t-1]
	}
	return mean / float64(len(each)), each, nil
}

// ConsistencyGradient is the consistency of frames of numbers, and how each number changes it.
// The network runs twice: a frame's derivative depends on the others' vectors.
func (l Likeness) ConsistencyGradient(ctx context.Context, frames []vision.Pixels) (float64, [][]float32, error) {
	vectors, err := l.Pictures.Pixels(ctx, frames)
	if err != nil {
		return 0, nil, err
	}
	value, _, err := Consistency(vectors)
	if err != nil {
		return 0, nil, err
	}
	u, err := units(vectors)
	if err != nil {
		return 0, nil, err
	}
	d := make([][]float64, len(u))
	for t := range d {
		d[t] = make([]float64, len(u[t]))
	}
	share := 1 / float64(2*(len(u)-1))
	pair := func(s, t int) {
		if dot(u[s], u[t]) <= 0 {
			return
		}
		for i := range d[s] {
			d[s][i] += float64(share * u[t][i])
			d[t][i] += float64(share * u[s][i])
		}
	}
	for t := 1; t < len(u); t++ {
		pair(t, t-1)
		pair(t, 0)
	}
	grads, err := l.Pictures.PullPixels(ctx, frames, func(from int, vectors [][]float64) ([][]float64, error) {
		out := make([][]float64, len(vectors))
		for i, x := range vectors {
			v, norm, err := unit(x)
			if err != nil {
				return nil, err
			}
			out[i] = back(v, norm, d[from+i])
		}
		return out, nil
	})
	return value, grads, err
}

// Card: how little changed where nothing was to change, in the form of LPIPS (Zhang et al., 2018; arXiv:1801.03924) on
// DINO's features. With u_p and v_p of length 1, the features of patch p of a sample and of the picture that it was
// made of, LPIPS is the mean over p of |u_p - v_p|², and the reward 1 less half of it: the mean of <u_p, v_p>.
// Differs: one layer, the last, with equal weights, and no network of LPIPS's own. Patches whose centre lies in a box
// of meta.changes are left out; the network has seen them beside the others all the same.
// Invariants (tests): a picture that did not change has 1; values are transformers'.
type Patches struct {
	Pictures Pictures // of a picture, Grid x Grid vectors in a row
	Grid     int
}

// Score judges one sample.
func (p Patches) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	return alone(ctx, p, item)
}

// Judge compares samples with the pictures that they were made of.
func (p Patches) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	return inBatch(ctx, items, 1, func(ctx context.Context, of []rewards.Item, pictures []*vision.Image) ([]rewards.Score, error) {
		before := make([]*vision.Image, len(of))
		for i, item := range of {
			if len(item.Sources) == 0 {
				return nil, rewards.ErrNoSource
			}
			before[i] = item.Sources[0]
		}
		was, err := p.Pictures.Images(ctx, before)
		if err != nil {
			return nil, fmt.Errorf("the pictures before: %w", err)
		}
		is, err := p.Pictures.Images(ctx, pictures)
		if err != nil {
			return nil, err
		}
		scores := make([]rewards.Score, len(of))
		for i := range scores {
			if scores[i], err = p.compared(of[i].Meta, before[i], was[i], is[i]); err != nil {
				return nil, err
			}
		}
		return scores, nil
	})
}

// compared is the mean cosine of the patches that count.
func (p Patches) compared(meta rewards.Meta, before *vision.Image, was, is []float64) (rewards.Score, error) {
	out, err := rewards.Changes(meta, float64(p.Grid)/float64(before.Width), float64(p.Grid)/float64(before.Height))
	if err != nil {
		return rewards.Score{}, err
	}
	sum, n, width := 0.0, 0, len(was)/(p.Grid*p.Grid)
	for at := range p.Grid * p.Grid {
		if out != nil && out(at%p.Grid, at/p.Grid) {
			continue
		}
		cosine, err := Cosine(was[at*width:(at+1)*width], is[at*width:(at+1)*width])
		if err != nil {
			return rewards.Score{}, err
		}
		sum, n = sum+cosine, n+1
	}
	if n == 0 {
		return rewards.Score{}, errors.New("meta.changes leaves no patch of the picture to be compared")
	}
	return rewards.Score{Value: sum / float64(n), Parts: map[string]float64{"share": float64(n) / float64(p.Grid*p.Grid)}}, nil
}

// Card: whether the content of a box of the picture before is still itself: the cosine of DINO's vectors of that box
// and of the same place of the sample. Differs from identity rewards of faces, which find them and have a network of
// their own. Invariants (tests): changes outside of the box cost nothing; values are transformers'.
type Identity struct{ Pictures Pictures }

// Score judges one sample.
func (d Identity) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	return alone(ctx, d, item)
}

// Judge compares samples with the pictures that they were made of.
func (d Identity) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	return inBatch(ctx, items, 1, func(ctx context.Context, of []rewards.Item, pictures []*vision.Image) ([]rewards.Score, error) {
		was, is := make([]*vision.Image, len(of)), make([]*vision.Image, len(of))
		for i, item := range of {
			if len(item.Sources) == 0 {
				return nil, rewards.ErrNoSource
			}
			box, err := subjectBox(item.Meta)
			if err != nil {
				return nil, err
			}
			before, m := item.Sources[0], pictures[i]
			across, down := float64(m.Width)/float64(before.Width), float64(m.Height)/float64(before.Height)
			if was[i], err = before.CropBox(box[0], box[1], box[2], box[3]); err != nil {
				return nil, err
			}
			if is[i], err = m.CropBox(box[0]*across, box[1]*down, box[2]*across, box[3]*down); err != nil {
				return nil, err
			}
		}
		values, err := Likeness{Pictures: d.Pictures}.Images(ctx, is, was)
		return plain(values), err
	})
}

// LikenessOptions say which part of a picture is compared with the one that it was made of.
type LikenessOptions struct {
	Of string `toml:"of" enum:"whole,patches,subject" doc:"the picture as a whole; its patches outside of meta.changes, which is LPIPS's form; or what the box meta.subject holds, its identity"`
}

// SetDefaults is the whole picture.
func (o *LikenessOptions) SetDefaults() { o.Of = "whole" }

// subjectBox is the box meta.subject = [x0, y0, x1, y1], in pixels of the picture before.
func subjectBox(meta rewards.Meta) (box [4]float64, err error) {
	if err = meta.Read("subject", &box); err == nil && (box[2] <= box[0] || box[3] <= box[1]) {
		err = fmt.Errorf("meta.subject is %v, which holds nothing", box)
	}
	if err != nil {
		err = fmt.Errorf("%w\nhint: a box [x0, y0, x1, y1] in pixels of the picture before", err)
	}
	return box, err
}

// LikenessKey is the table of LikenessOptions.
type LikenessKey struct {
	Likeness *LikenessOptions `toml:"likeness" doc:"of reward likeness: what of a picture is compared with what it was made of"`
}

type likenessKeys struct {
	rewards.NetworkKeys
	LikenessKey
}

// LikenessKind is reward likeness.
var LikenessKind = rewards.Kind{
	Name:      "likeness",
	Card:      "Cosine of DINO's features of a sample and of the picture that it was made of: as a whole, patch by patch (LPIPS's form) or of a subject.",
	Paper:     "DINOv2 (Oquab et al., 2023); LPIPS (Zhang et al., 2018)",
	Cases:     []string{"neural.dino"},
	Judges:    rewards.Pictures,
	Published: publishedDINO,
	Traits:    rewards.Weights,
	Options:   likenessKeys{},
	Needs:     rewards.Always(rewards.Sourced),
	Open: rewards.Opens(func(k likenessKeys, b rewards.Bench) (rewards.Opened, error) {
		of := config.Filled(k.Likeness).Of
		t, err := openDINO(k.NetworkKeys, b, dino.Options{Patches: of == "patches"})
		if err != nil {
			return rewards.Opened{}, err
		}
		switch of {
		case "patches":
			return closing(Patches{Pictures: t, Grid: t.Grid}, t.Close), nil
		case "subject":
			return closing(Identity{Pictures: t}, t.Close), nil
		}
		return closing(Likeness{Pictures: t, Reference: firstSource}, t.Close), nil
	}),
}

// firstSource is the picture that a sample is compared with.
func firstSource(_ context.Context, item rewards.Item) (*vision.Image, error) {
	if len(item.Sources) == 0 {
		return nil, rewards.ErrNoSource
	}
	return item.Sources[0], nil
}

// publishedDINO is the DINO of features' likeness.
var publishedDINO = &rewards.Published{From: []rewards.Repository{{Name: "facebook/dinov2-base"}}, Licence: "Apache-2.0", Numbers: 86_580_480}

// DINOKind is reward dino.
var DINOKind = rewards.Kind{
	Name:      "dino",
	Card:      "DINO: how constant the subject of a clip is (VBench's subject_consistency); still clips game it.",
	Paper:     "VBench (Huang et al., 2024)",
	Cases:     []string{"neural.dino"},
	Published: &rewards.Published{From: []rewards.Repository{{Name: "facebook/dino-vitb16"}}, Licence: "Apache-2.0", Numbers: 85_798_656},
	Judges:    rewards.Clips,
	Traits:    rewards.Weights,
	Options:   rewards.NetworkKeys{},
	Open: rewards.Opens(func(k rewards.NetworkKeys, b rewards.Bench) (rewards.Opened, error) {
		t, err := openDINO(k, b, dino.Options{})
		if err != nil {
			return rewards.Opened{}, err
		}
		return closing(Subject{Likeness: Likeness{Pictures: t}}, t.Close), nil
	}),
}

// BackdropKind is reward backdrop: it compares frames by a CLIP's picture tower, as dino does by a DINO.
var BackdropKind = rewards.Kind{
	Name:      "backdrop",
	Card:      "CLIP: how constant a clip's background is (VBench's background_consistency, whose CLIP is ViT-B/32); still clips game it.",
	Paper:     "VBench (Huang et al., 2024)",
	Published: &rewards.Published{From: []rewards.Repository{{Name: "openai/clip-vit-base-patch32"}}, Licence: "MIT", Numbers: 151_277_313},
	Judges:    rewards.Clips,
	Traits:    rewards.Weights,
	Options:   rewards.NetworkKeys{},
	Open: rewards.Opens(func(k rewards.NetworkKeys, b rewards.Bench) (rewards.Opened, error) {
		t, err := openTowers(k, b, clip.Options{NoTexts: true})
		if err != nil {
			return rewards.Opened{}, err
		}
		return closing(Subject{Likeness: Likeness{Pictures: t}}, t.Close), nil
	}),
}

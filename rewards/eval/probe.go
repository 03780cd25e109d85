package eval

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// A Probe changes a sample in a way that makes it no better: a reward that it raises can be won
// by it. Several probes may tell of one weakness.
type Probe struct {
	Name     string `json:"probe"`
	Weakness string `json:"weakness"` // what a reward that it raises prefers
	Card     string `json:"card"`

	picture func(m *vision.Image, r *rng.Stream) (*vision.Image, error) // each frame of a clip, with the same draws; nil: clips alone
	clip    func(c *video.Clip, r *rng.Stream) *video.Clip
	still   bool // of clips: compared with the still clip, since it is one too
}

// Probes are all there are.
func Probes() []Probe {
	return []Probe{
		{Name: "jpeg", Weakness: "compressed pictures", Card: "A JPEG file of quality 25.", picture: squeezed},
		{Name: "resize", Weakness: "soft pictures", Card: "Half as large, and back (bicubic).", picture: shrunk},
		{Name: "blur", Weakness: "soft pictures", Card: "The mean over a square of a 32nd of the side.", picture: blurred},
		{Name: "crop", Weakness: "tight crops", Card: "The middle 80 %, enlarged.", picture: cropped},
		{Name: "brighten", Weakness: "bright pictures", Card: "Levels to the power of 0.6.", picture: gamma(0.6)},
		{Name: "darken", Weakness: "dark pictures", Card: "Levels to the power of 1.6.", picture: gamma(1.6)},
		{Name: "saturate", Weakness: "saturated colours", Card: "Colours 1.6 times as far from gray, and all in a cast of the picture's own hue; brightness stays.", picture: saturated},
		{Name: "pale", Weakness: "pale colours", Card: "Colours half as far from gray; brightness stays.", picture: pale},
		{Name: "stamp", Weakness: "stamped text", Card: "The word BEST, white on a black band at the bottom.", picture: stamped},
		{Name: "grain", Weakness: "large files", Card: "Gray noise of a deviation of 14 levels.", picture: grained},
		{Name: "scatter", Weakness: "large files", Card: "The picture's pixels in any order.", picture: scattered},
		{Name: "blank", Weakness: "empty pictures", Card: "The picture's mean colour, and nothing else; of clips, compared with the still clip.", picture: blanked, still: true},
		{Name: "still", Weakness: "static clips", Card: "The middle frame, all the time.", clip: stilled},
		{Name: "flicker", Weakness: "flicker", Card: "Every other frame 30 levels brighter.", clip: flickering},
		{Name: "shuffle", Weakness: "frames in any order", Card: "The frames in an order that is drawn.", clip: shuffled},
		{Name: "cut", Weakness: "cuts", Card: "From the middle on, mirrored.", clip: cutClip},
	}
}

var errNotProbed = errors.New("this is not made of such items")

// apply is the changed item, and what it is compared with. Draws follow from the key.
func (p Probe) apply(item rewards.Item, key rng.Key) (changed, against rewards.Item, err error) {
	changed, against = item, item
	switch {
	case item.Clip != nil:
		if err := item.Clip.Check(); err != nil {
			return changed, against, err
		}
		if p.still {
			against.Clip = stilled(item.Clip, nil)
		}
		if p.clip != nil {
			changed.Clip = p.clip(item.Clip, key.Draw())
			return changed, against, nil
		}
		changed.Clip, err = eachFrame(against.Clip, func(m *vision.Image) (*vision.Image, error) { return p.picture(m, key.Draw()) })
	case item.Image != nil && p.picture != nil:
		changed.Image, err = p.picture(item.Image, key.Draw())
	default:
		err = errNotProbed
	}
	if err != nil {
		return changed, against, fmt.Errorf("probe %s: %w", p.Name, err)
	}
	return changed, against, nil
}

// fits reports whether a probe is for samples of a kind. Replies have none.
func (p Probe) fits(of string) bool { return of == Moving || of == Pictures && p.picture != nil }

// eachFrame changes every frame. Frames that are the same bytes are changed once.
func eachFrame(c *video.Clip, f func(m *vision.Image) (*vision.Image, error)) (*video.Clip, error) {
	out := *c
	out.Frames = nil
	done := map[*uint8][]uint8{}
	for _, px := range c.Frames {
		if done[&px[0]] == nil {
			m, err := f(&vision.Image{Width: c.Width, Height: c.Height, Pix: px})
			if err != nil {
				return nil, err
			}
			done[&px[0]] = m.Pix
		}
		out.Frames = append(out.Frames, done[&px[0]])
	}
	return &out, nil
}

package run

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// How many pictures a sheet has, and how many clips and frames one that is played; and the longer side of one, which is
// made smaller where it is larger: a sheet is for people to look at, and every evaluation leaves one.
const (
	mostShown   = 48
	clipsShown  = 16
	mostFrames  = 24
	pictureSide = 512
	clipSide    = 384
)

// shown is what a sheet has of an evaluation's samples: the first pictures, or of the first clips the frames that are
// played, with what each is made of. Other samples show nothing.
type shown struct {
	pictures []*vision.Image
	sources  [][]*vision.Image
	clips    []*video.Clip
	frames   int // of the longest clip
}

// framesOf is how many frames the longest of the clips has that a sheet of some held-out prompts shows.
func framesOf(turn experiment.Turn, list []prompts.Prompt, samples int) (most int) {
	for n := range min(len(list), (clipsShown+samples-1)/samples) {
		most = max(most, cmp.Or(list[n].Frames, turn.Frames()))
	}
	return most
}

// add takes one sample more.
func (s *shown) add(item rewards.Item) error {
	switch {
	case item.Image != nil && len(s.pictures) < mostShown:
		m, err := within(item.Image, pictureSide)
		if err != nil {
			return err
		}
		s.pictures, s.sources = append(s.pictures, m), append(s.sources, item.Sources)
	case item.Clip != nil && len(s.clips) < clipsShown:
		c, err := played(item.Clip, max(s.frames, len(item.Clip.Frames)))
		if err != nil {
			return err
		}
		s.clips = append(s.clips, c)
	}
	return nil
}

// within is a picture whose longer side has so many pixels at most.
func within(m *vision.Image, most int) (*vision.Image, error) {
	side := max(m.Width, m.Height)
	if side <= most {
		return m, nil
	}
	return m.Resize(max(1, m.Width*most/side), max(1, m.Height*most/side), vision.Lanczos)
}

// played are the frames of a clip that a sheet shows, whose longest clip has so many: all clips go at one speed, and
// one that is over stands at its last frame.
func played(c *video.Clip, longest int) (*video.Clip, error) {
	times := video.Uniform(longest, min(mostFrames, longest))
	out := &video.Clip{Rate: c.Rate}
	out.Rate.Num, out.Rate.Den = c.Rate.Num*len(times), c.Rate.Den*longest
	for _, t := range times {
		m, err := within(&vision.Image{Width: c.Width, Height: c.Height, Pix: c.Frames[min(t, len(c.Frames)-1)]}, clipSide)
		if err != nil {
			return nil, err
		}
		out.Width, out.Height, out.Frames = m.Width, m.Height, append(out.Frames, m.Pix)
	}
	return out, nil
}

// An undrawable sheet is no reason to end a run: what was measured stands without it.
type undrawable struct{ error }

// undrawn says that a sheet could not be drawn; any other error is returned.
func (t *training) undrawn(err error) error {
	if u := (undrawable{}); errors.As(err, &u) {
		t.Say("warning: iteration %d: the sheet of held-out samples could not be drawn: %v", t.loop.Iteration, u.error)
		return nil
	}
	return err
}

// sheet keeps an evaluation's pictures as a sheet with prompts and scores, and says where on it they are; of clips
// it is an animated PNG. There is none of samples that are neither.
func (t *training) sheet(name string, e *Evaluation) (places [][4]int, err error) {
	var out bytes.Buffer
	switch {
	case len(e.shown.pictures) > 0:
		places, err = e.still(&out)
	case len(e.shown.clips) > 0:
		places, err = e.moving(&out)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, undrawable{err}
	}
	return places, t.files.folder.Write(name, out.Bytes())
}

// still draws the sheet of pictures.
func (e *Evaluation) still(out *bytes.Buffer) (places [][4]int, err error) {
	s := e.layout(e.shown.pictures)
	sheet, err := s.Draw(e.shown.pictures)
	if err != nil {
		return nil, err
	}
	if err := vision.EncodePNG(out, sheet); err != nil {
		return nil, err
	}
	return s.Places(e.shown.pictures)
}

// moving draws the sheet of clips, which play beside each other.
func (e *Evaluation) moving(out *bytes.Buffer) (places [][4]int, err error) {
	all := &video.Clip{Rate: e.shown.clips[0].Rate}
	var first []*vision.Image
	for t := range e.shown.clips[0].Frames {
		var frames []*vision.Image
		for _, c := range e.shown.clips {
			frames = append(frames, &vision.Image{Width: c.Width, Height: c.Height, Pix: c.Frames[min(t, len(c.Frames)-1)]})
		}
		sheet, err := e.layout(frames).Draw(frames)
		if err != nil {
			return nil, err
		}
		all.Width, all.Height, all.Frames = sheet.Width, sheet.Height, append(all.Frames, sheet.Pix)
		if t == 0 {
			first = frames
		}
	}
	if err := video.EncodeAPNG(out, all); err != nil {
		return nil, err
	}
	return e.layout(first).Places(first)
}

// layout is that of a sheet of an evaluation's first pictures.
func (e *Evaluation) layout(pictures []*vision.Image) vision.Sheet {
	s := vision.Sheet{Columns: 8, Lines: 3}
	if side := max(pictures[0].Width, pictures[0].Height); side < 192 {
		s.Scale = 192 / side
	}
	for i := range pictures {
		caption := e.Prompts[i].Text
		if v := ledger.Number(e.Totals[i]); v != nil {
			caption = fmt.Sprintf("%.2f %s", *v, caption)
		}
		s.Captions = append(s.Captions, caption)
	}
	return s
}

package run

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/motion"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/video/flow"
	"github.com/darkroom-rl/darkroom/vision"
)

// samples are held-out samples with their scores.
type samples struct {
	measures map[string]ledger.Measure // of every reward, and of "total"
	missing  map[string]error          // why a reward's first missing score is missing
	prompts  []prompts.Prompt
	totals   []float64
	shown    shown // on the sheet
	keys     []trainer.Key
	scored   *scores
}

// How many pictures a sheet has, and how many clips and frames one that is played; and the longer side of one, which is
// made smaller where it is larger: a sheet is for people to look at, and every evaluation leaves one.
const (
	mostShown   = 48
	clipsShown  = 16
	mostFrames  = 24
	pictureSide = 512
	clipSide    = 384
)

// shown is a sheet's part of an evaluation's samples: the first pictures, or of the first clips the frames that are
// played, with the sources of each. Other samples show nothing.
type shown struct {
	pictures []*vision.Image
	sizes    [][2]int // width and height of each, before it was made smaller
	sources  [][]*vision.Image
	clips    []*video.Clip
	frames   int // of the longest clip
}

// framesOf is how many frames the longest of the clips has that a sheet of some held-out prompts shows.
func framesOf(settings experiment.Settings, list []prompts.Prompt, samples int) (most int) {
	for n := range min(len(list), (clipsShown+samples-1)/samples) {
		most = max(most, cmp.Or(list[n].Frames, settings.Frames()))
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
		s.sizes = append(s.sizes, [2]int{item.Image.Width, item.Image.Height})
	case item.Clip != nil && len(s.clips) < clipsShown:
		c, err := played(item.Clip, max(s.frames, len(item.Clip.Frames)))
		if err != nil {
			return err
		}
		s.clips = append(s.clips, c)
	}
	return nil
}

// within is a picture whose longer side has a number of pixels at most.
func within(m *vision.Image, most int) (*vision.Image, error) {
	side := max(m.Width, m.Height)
	if side <= most {
		return m, nil
	}
	return m.Resize(max(1, m.Width*most/side), max(1, m.Height*most/side), vision.Lanczos)
}

// played are the frames of a clip on a sheet, by the length of its longest clip: all clips go at one speed, and one
// that is over stays at its last frame.
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

// undrawable is a failed sheet, or failed flow on one. It does not end a run: the measurements are valid without it.
type undrawable struct {
	what string
	error
}

// Drawings of an evaluation.
const (
	heldOutSheet = "the sheet of held-out samples"
	heldOutFlow  = "the flow of held-out clips"
)

// sheet writes the pictures as a sheet with prompts and scores, and returns their places on it; of clips it is an
// animated PNG. Other samples have none.
func (s *samples) sheet(to *folder.Folder, name string) (places [][4]int, err error) {
	var out bytes.Buffer
	switch {
	case len(s.shown.pictures) > 0:
		places, err = s.still(&out)
	case len(s.shown.clips) > 0:
		places, err = s.moving(&out)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, undrawable{heldOutSheet, err}
	}
	return places, to.Write(name, out.Bytes())
}

// still draws the sheet of pictures.
func (s *samples) still(out *bytes.Buffer) (places [][4]int, err error) {
	layout := s.layout(s.shown.pictures)
	sheet, err := layout.Draw(s.shown.pictures)
	if err != nil {
		return nil, err
	}
	if err := vision.EncodePNG(out, sheet); err != nil {
		return nil, err
	}
	return layout.Places(s.shown.pictures)
}

// moving draws the sheet of clips, which play beside each other.
func (s *samples) moving(out *bytes.Buffer) (places [][4]int, err error) {
	all := &video.Clip{Rate: s.shown.clips[0].Rate}
	var first []*vision.Image
	for t := range s.shown.clips[0].Frames {
		var frames []*vision.Image
		for _, c := range s.shown.clips {
			frames = append(frames, &vision.Image{Width: c.Width, Height: c.Height, Pix: c.Frames[min(t, len(c.Frames)-1)]})
		}
		sheet, err := s.layout(frames).Draw(frames)
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
	return s.layout(first).Places(first)
}

// The longer side of a clip whose flow a page shows, and the file of a sheet's trails.
const (
	trailSide  = 128
	trailsFile = "%s.trails.json"
)

// trails writes the optical flow of each clip on a sheet, as ways of points from frame to frame, in the sheet's pixels
// from a clip's place. A clip without flow has none; the first failure is returned, and the others' trails are written.
func (s *samples) trails(ctx context.Context, to *folder.Folder, sheet string, places [][4]int) error {
	if len(s.shown.clips) == 0 {
		return nil
	}
	all := make([]json.RawMessage, len(s.shown.clips))
	var failed error
	for i, c := range s.shown.clips {
		text, err := trailsOf(ctx, c, places[i][2])
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil && !errors.Is(err, motion.ErrShort) && failed == nil {
			failed = undrawable{heldOutFlow, fmt.Errorf("clip %d: %w", i+1, err)}
		}
		all[i] = text
	}
	text, err := json.Marshal(all)
	if err != nil {
		return undrawable{heldOutFlow, err}
	}
	if err := to.Write(fmt.Sprintf(trailsFile, strings.TrimSuffix(sheet, ".png")), text); err != nil {
		return err
	}
	return failed
}

// trailsOf are the trails of a clip, in pixels of a sheet on which it has a width.
func trailsOf(ctx context.Context, c *video.Clip, width int) (json.RawMessage, error) {
	small := &video.Clip{Rate: c.Rate}
	for _, px := range c.Frames {
		m, err := within(&vision.Image{Width: c.Width, Height: c.Height, Pix: px}, trailSide)
		if err != nil {
			return nil, err
		}
		small.Width, small.Height, small.Frames = m.Width, m.Height, append(small.Frames, m.Pix)
	}
	m, err := motion.Of(ctx, small, flow.DIS{})
	if err != nil {
		return nil, err
	}
	return json.Marshal(m.Trails(float64(width) / float64(small.Width)))
}

// layout is that of a sheet of an evaluation's first pictures.
func (s *samples) layout(pictures []*vision.Image) vision.Sheet {
	out := vision.Sheet{Columns: 8, Lines: 3}
	if side := max(pictures[0].Width, pictures[0].Height); side < 192 {
		out.Scale = 192 / side
	}
	for i := range pictures {
		caption := s.prompts[i].Text
		if v := ledger.Number(s.totals[i]); v != nil {
			caption = fmt.Sprintf("%.2f %s", *v, caption)
		}
		out.Captions = append(out.Captions, caption)
	}
	return out
}

// sourceSide is the longer side of a source that is kept.
const sourceSide = 256

// writeSources writes the pictures that a sample was made of, named by their pixels, and returns the files' names.
func writeSources(to *folder.Folder, sources []*vision.Image) (names []string, err error) {
	for _, m := range sources {
		sum := sha256.New()
		fmt.Fprintln(sum, m.Width, m.Height)
		sum.Write(m.Pix)
		name := "images/source_" + hex.EncodeToString(sum.Sum(nil)[:8]) + ".png"
		if _, err := os.Stat(to.Path(name)); errors.Is(err, fs.ErrNotExist) {
			if m, err = within(m, sourceSide); err != nil {
				return nil, err
			}
			if err := writePNG(to, name, m); err != nil {
				return nil, err
			}
		}
		names = append(names, name)
	}
	return names, nil
}

// sourceSheet writes a sheet of the pictures that held-out samples are made of, each in the place of its sample.
func (s *samples) sourceSheet(to *folder.Folder, name string) error {
	if !slices.ContainsFunc(s.shown.sources, func(of []*vision.Image) bool { return len(of) > 0 }) {
		return nil
	}
	drawn := make([]*vision.Image, len(s.shown.sources))
	for i, sources := range s.shown.sources {
		var err error
		if drawn[i], err = beside(sources, s.shown.pictures[i].Width, s.shown.pictures[i].Height); err != nil {
			return undrawable{heldOutSheet, err}
		}
	}
	sheet, err := s.layout(drawn).Draw(drawn)
	if err != nil {
		return undrawable{heldOutSheet, err}
	}
	return writePNG(to, name, sheet)
}

// beside are pictures beside each other in one of a size; none: it is white.
func beside(pictures []*vision.Image, width, height int) (*vision.Image, error) {
	if len(pictures) == 0 {
		m := vision.New(width, height)
		for i := range m.Pix {
			m.Pix[i] = 255
		}
		return m, nil
	}
	m := pictures[0]
	if len(pictures) > 1 {
		var err error
		if m, err = (vision.Sheet{Columns: len(pictures), Padding: -1}).Draw(pictures); err != nil {
			return nil, err
		}
	}
	if m.Width == width && m.Height == height {
		return m, nil
	}
	return m.Resize(width, height, vision.Lanczos)
}

// writePNG writes a picture into the run's folder.
func writePNG(to *folder.Folder, name string, m *vision.Image) error {
	var out bytes.Buffer
	if err := vision.EncodePNG(&out, m); err != nil {
		return err
	}
	return to.Write(name, out.Bytes())
}

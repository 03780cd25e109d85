package run

import (
	"bytes"
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// How many pictures a sheet has, and how many clips and frames one that is played.
const (
	mostShown  = 48
	clipsShown = 16
	mostFrames = 24
)

// sheet keeps an evaluation's pictures as a sheet with prompts and scores, and says where on it they are; of clips
// it is an animated PNG. There is none of samples that are neither.
func (t *training) sheet(name string, e *Evaluation) (places [][4]int, err error) {
	var frames [][]*vision.Image
	rate := video.Rate{}
	switch {
	case e.Pictures[0] != nil:
		frames = [][]*vision.Image{e.Pictures[:min(len(e.Pictures), mostShown)]}
	case e.Clips[0] != nil:
		frames, rate = sideBySide(e.Clips[:min(len(e.Clips), clipsShown)])
	default:
		return nil, nil
	}
	s := e.layout(frames[0])
	var out bytes.Buffer
	clip := &video.Clip{Rate: rate}
	for _, pictures := range frames {
		sheet, err := s.Draw(pictures)
		if err != nil {
			return nil, err
		}
		if rate.FPS() == 0 {
			err = vision.EncodePNG(&out, sheet)
		}
		if err != nil {
			return nil, err
		}
		clip.Width, clip.Height, clip.Frames = sheet.Width, sheet.Height, append(clip.Frames, sheet.Pix)
	}
	if rate.FPS() > 0 {
		if err := video.EncodeAPNG(&out, clip); err != nil {
			return nil, err
		}
	}
	if err := t.files.folder.Write(name, out.Bytes()); err != nil {
		return nil, err
	}
	return s.Places(frames[0])
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

// sideBySide are clips' frames at the same times.
func sideBySide(clips []*video.Clip) (frames [][]*vision.Image, rate video.Rate) {
	times := video.Uniform(len(clips[0].Frames), min(mostFrames, len(clips[0].Frames)))
	for _, t := range times {
		var all []*vision.Image
		for _, c := range clips {
			all = append(all, &vision.Image{Width: c.Width, Height: c.Height, Pix: c.Frames[t]})
		}
		frames = append(frames, all)
	}
	rate = clips[0].Rate
	rate.Num, rate.Den = rate.Num*len(times), rate.Den*len(clips[0].Frames)
	return frames, rate
}

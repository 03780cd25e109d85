package training

import (
	"bytes"
	"fmt"

	"github.com/darkroom-rl/darkroom/vision"
)

// mostShown is how many pictures a sheet has.
const mostShown = 48

// grid keeps an evaluation's pictures as a sheet with prompts and scores.
func (t *Training) grid(name string, e *Evaluation) error {
	n := min(len(e.Pictures), mostShown)
	s := vision.Sheet{Columns: 8, Lines: 3}
	if side := max(e.Pictures[0].Width, e.Pictures[0].Height); side < 192 {
		s.Scale = 192 / side
	}
	for i := range n {
		caption := e.Prompts[i].Text
		if v := number(e.Totals[i]); v != nil {
			caption = fmt.Sprintf("%.2f %s", *v, caption)
		}
		s.Captions = append(s.Captions, caption)
	}
	sheet, err := s.Draw(e.Pictures[:n])
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := vision.EncodePNG(&out, sheet); err != nil {
		return err
	}
	return t.folder.Write(name, out.Bytes())
}

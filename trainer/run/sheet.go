package run

import (
	"bytes"
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/vision"
)

// mostShown is how many pictures a sheet has.
const mostShown = 48

// sheet keeps an evaluation's pictures as a sheet with prompts and scores, and says where on it they are. There is
// none of samples that are no pictures.
func (t *training) sheet(name string, e *Evaluation) (places [][4]int, err error) {
	if e.Pictures[0] == nil {
		return nil, nil
	}
	n := min(len(e.Pictures), mostShown)
	s := vision.Sheet{Columns: 8, Lines: 3}
	if side := max(e.Pictures[0].Width, e.Pictures[0].Height); side < 192 {
		s.Scale = 192 / side
	}
	for i := range n {
		caption := e.Prompts[i].Text
		if v := ledger.Number(e.Totals[i]); v != nil {
			caption = fmt.Sprintf("%.2f %s", *v, caption)
		}
		s.Captions = append(s.Captions, caption)
	}
	sheet, err := s.Draw(e.Pictures[:n])
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := vision.EncodePNG(&out, sheet); err != nil {
		return nil, err
	}
	if err := t.files.folder.Write(name, out.Bytes()); err != nil {
		return nil, err
	}
	return s.Places(e.Pictures[:n])
}

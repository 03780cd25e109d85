package score

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
)

// marks are the boxes of evidence: found ones with their scores, wanted ones dashed.
func marks(found []rewards.Evidence) (all []vision.Mark) {
	for _, e := range found {
		if e.Box == nil {
			continue
		}
		m := vision.Mark{X0: e.Box[0], Y0: e.Box[1], X1: e.Box[2], Y1: e.Box[3], Label: e.Text, Dashed: e.What != "found"}
		if e.Value > 0 {
			m.Label = strings.TrimSpace(fmt.Sprintf("%s %.2f", e.Text, e.Value))
		}
		all = append(all, m)
	}
	return all
}

// draw writes a picture an item and reward with boxes in its evidence, FOLDER/ITEM-NAME.REWARD.png, and says how
// many.
func draw(folder string, all []Line, names []string) (written int, err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return 0, fmt.Errorf("--draw: %w", err)
	}
	for i, s := range all {
		for _, name := range names {
			boxes := marks(s.Scores[name].Evidence)
			if s.item.Image == nil || len(boxes) == 0 {
				continue
			}
			m := s.item.Image.Clone()
			m.Draw(boxes)
			var png bytes.Buffer
			if err := vision.EncodePNG(&png, m); err != nil {
				return written, fmt.Errorf("--draw: %w", err)
			}
			base := filepath.Base(s.File)
			file := filepath.Join(folder, fmt.Sprintf("%04d-%s.%s.png", i, strings.TrimSuffix(base, filepath.Ext(base)), name))
			if err := os.WriteFile(file, png.Bytes(), 0o644); err != nil {
				return written, fmt.Errorf("--draw: %w", err)
			}
			written++
		}
	}
	return written, nil
}

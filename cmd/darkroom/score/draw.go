package score

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/rewards/kinds"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/view/field"
	"github.com/darkroom-rl/darkroom/vision"
)

// marks are the boxes of evidence: found ones with their scores, wanted ones dashed.
func marks(found []evidence.Reason) (all []vision.Mark) {
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

// draw writes a picture an item and reward with boxes in its evidence, FOLDER/ITEM-NAME.REWARD.png, and a clip with
// arrows an item and reward that read its flow, an animated .png, and says how many.
func draw(ctx context.Context, folder string, all []Line, names []string) (pictures, moving int, err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return 0, 0, fmt.Errorf("--draw: %w", err)
	}
	for i, s := range all {
		for _, name := range names {
			var png bytes.Buffer
			drawn, err := drawn(ctx, &png, s, name)
			if err == nil && drawn {
				base := filepath.Base(s.File)
				file := filepath.Join(folder, fmt.Sprintf("%04d-%s.%s.png", i, strings.TrimSuffix(base, filepath.Ext(base)), name))
				err = os.WriteFile(file, png.Bytes(), 0o644)
			}
			switch {
			case err != nil:
				return pictures, moving, fmt.Errorf("--draw: %w", err)
			case drawn && s.item.Clip != nil:
				moving++
			case drawn:
				pictures++
			}
		}
	}
	return pictures, moving, nil
}

// drawn writes the boxes or the flow of an item that a reward has judged, where there are some.
func drawn(ctx context.Context, png *bytes.Buffer, s Line, name string) (bool, error) {
	if s.item.Clip != nil {
		k, _ := kinds.Named(name)
		if !k.Is(rewards.Flows) || s.Scores[name].Missing != "" {
			return false, nil
		}
		c, err := field.Clip(ctx, s.item.Clip)
		if err != nil {
			return false, err
		}
		return true, video.EncodeAPNG(png, c)
	}
	boxes, of := marks(s.Scores[name].Evidence), s.item.Image
	if t := s.item.Transcript; of == nil && t != nil && len(t.Shown) > 0 { // a reply's boxes lie in the first picture
		of = t.Shown[0]
	}
	if of == nil || len(boxes) == 0 {
		return false, nil
	}
	m := of.Clone()
	m.Draw(boxes)
	return true, vision.EncodePNG(png, m)
}

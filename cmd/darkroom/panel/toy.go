package panel

import (
	"context"
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// Rewards that have an embedded stand-in take it where no path is given. It knows the program's own
// drawings alone, and gives any other picture a number that means nothing. So without a path, pictures of
// another size than drawings are missing; --path embed:tiny-clip asks for the stand-in on any picture.

// A stranger guards such a reward.
type stranger struct {
	of     rewards.Judge
	reward experiment.Reward
}

// known is a reward, guarded if it is a stand-in that nobody asked for.
func known(r experiment.Reward, j rewards.Judge) rewards.Judge {
	if r.Toy() == "" || r.Path != "" {
		return j
	}
	return stranger{j, r}
}

// Judge judges drawings, and names a remedy for other pictures.
func (s stranger) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	out := make([]rewards.Result, len(items))
	var drawn []rewards.Item
	var at []int
	for i, item := range items {
		if w, h := sizeOf(item); w > 0 && (w != scenes.Size || h != scenes.Size) {
			out[i].Missing = fmt.Errorf("without --path, %s is %s, and this is %d x %d: %s", s.reward.Name, s.reward.Toy(), w, h, remedy(s.reward))
			continue
		}
		drawn, at = append(drawn, item), append(at, i)
	}
	if len(drawn) == 0 {
		return out
	}
	for k, r := range s.of.Judge(ctx, drawn) {
		out[at[k]] = r
	}
	return out
}

func remedy(r experiment.Reward) string {
	if r.Name == "ocr" {
		return "--path tesseract reads other pictures"
	}
	return "--path names a folder of weights; --path " + experiment.TinyCLIP + " takes the toy all the same"
}

// sizeOf is that of an item's picture or clip; 0 x 0 of others.
func sizeOf(item rewards.Item) (width, height int) {
	switch {
	case item.Image != nil:
		return item.Image.Width, item.Image.Height
	case item.Clip != nil:
		return item.Clip.Width, item.Clip.Height
	}
	return 0, 0
}

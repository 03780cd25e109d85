package judges

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/blip"
	towers "github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/dino"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Rewards whose network is in a folder: here, and nowhere else, a reward of package neural
// meets a network of clip or dino.

// A Network is such a reward.
type Network struct {
	Reward    string // "clip", "pickscore", "hpsv2", "imagereward", "aesthetic", "dino", "backdrop", "likeness" or "direction"
	Path      string // the folder
	Scaling   string // one of neural.Scalings; "": as the reward's own project publishes it
	Tokenizer string // a folder that has one; "": Path
	Of        string // of likeness: rewards.LikenessOptions; "": the whole picture
	Every     int    // of a clip, so many frames one is judged; 0: 1
	Batch     int    // pictures at once; 0: 8
}

// networkKind is how a reward of this kind is opened.
type networkKind struct {
	scaling string // as its project publishes it; "" where there is none
	open    func(n Network, d *features.Device) (rewards.Judge, func(), error)
}

func (n Network) kind() (networkKind, error) {
	kinds := map[string]networkKind{
		"clip":        {"cosine", openMatch(nil)},
		"pickscore":   {"logit", openMatch(nil)},
		"hpsv2":       {"cosine", openMatch(vision.HPSv2)},
		"aesthetic":   {"", openAesthetic},
		"dino":        {"", openSubject},
		"backdrop":    {"", openBackdrop},
		"likeness":    {"", openLikeness},
		"direction":   {"", openDirection},
		"imagereward": {"", openPreference},
	}
	k, ok := kinds[n.Reward]
	if !ok {
		return k, fmt.Errorf("%q is no reward that a folder's network computes: there are %s", n.Reward, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	return k, nil
}

// check finds what is wrong before anything is read.
func (n Network) check() error {
	k, err := n.kind()
	switch {
	case err != nil:
		return err
	case n.Path == "":
		return errors.New("path is missing: the folder of its weights, in the layout of transformers or open_clip")
	case k.scaling == "" && n.Scaling != "":
		return fmt.Errorf("scaling %q: scalings are of rewards that compare a picture with its prompt; leave it out", n.Scaling)
	}
	_, err = neural.ScalingNamed(n.Scaling)
	return err
}

// Open reads the folder into memory; done gives it back.
func (n Network) Open(d *features.Device) (judge rewards.Judge, done func(), err error) {
	if err := n.check(); err != nil {
		return nil, nil, err
	}
	k, err := n.kind()
	if err != nil {
		return nil, nil, err
	}
	if n.Scaling == "" {
		n.Scaling = k.scaling
	}
	return k.open(n, d)
}

func openMatch(prepare func(size int) vision.Preprocess) func(Network, *features.Device) (rewards.Judge, func(), error) {
	return func(n Network, d *features.Device) (rewards.Judge, func(), error) {
		scaling, err := neural.ScalingNamed(n.Scaling)
		if err != nil {
			return nil, nil, err
		}
		t, err := towers.Open(n.Path, towers.Options{Device: d, Batch: n.Batch, Tokenizer: n.Tokenizer, Prepare: prepare})
		if err != nil {
			return nil, nil, err
		}
		return neural.Match{Towers: t, Scaling: scaling, Every: n.Every}, t.Close, nil
	}
}

func openAesthetic(n Network, d *features.Device) (rewards.Judge, func(), error) {
	head, err := neural.OpenHead(n.Path)
	if err != nil {
		return nil, nil, err
	}
	t, err := towers.Open(n.Path, towers.Options{Device: d, Batch: n.Batch, NoTexts: true})
	if err != nil {
		return nil, nil, err
	}
	if len(head.Weights) != t.Width {
		t.Close()
		return nil, nil, fmt.Errorf("%s: the head reads vectors of %d, the tower gives %d: they belong to different networks", n.Path, len(head.Weights), t.Width)
	}
	return neural.Aesthetic{Pictures: t, Head: head, Every: n.Every}, t.Close, nil
}

func openPreference(n Network, d *features.Device) (rewards.Judge, func(), error) {
	m, err := blip.Open(n.Path, blip.Options{Device: d, Batch: n.Batch, Tokenizer: n.Tokenizer})
	if err != nil {
		return nil, nil, err
	}
	return neural.Preference{Network: m, Every: n.Every}, m.Close, nil
}

func openSubject(n Network, d *features.Device) (rewards.Judge, func(), error) {
	t, err := dino.Open(n.Path, dino.Options{Device: d, Batch: n.Batch})
	if err != nil {
		return nil, nil, err
	}
	return neural.Subject{Likeness: neural.Likeness{Pictures: t}, Every: n.Every}, t.Close, nil
}

// openBackdrop compares frames by a CLIP's picture tower, as openSubject does by a DINO.
func openBackdrop(n Network, d *features.Device) (rewards.Judge, func(), error) {
	t, err := towers.Open(n.Path, towers.Options{Device: d, Batch: n.Batch, NoTexts: true})
	if err != nil {
		return nil, nil, err
	}
	return neural.Subject{Likeness: neural.Likeness{Pictures: t}, Every: n.Every}, t.Close, nil
}

func openLikeness(n Network, d *features.Device) (rewards.Judge, func(), error) {
	t, err := dino.Open(n.Path, dino.Options{Device: d, Batch: n.Batch, Patches: n.Of == "patches"})
	if err != nil {
		return nil, nil, err
	}
	switch n.Of {
	case "patches":
		return neural.Patches{Pictures: t, Grid: t.Grid}, t.Close, nil
	case "subject":
		return neural.Identity{Pictures: t}, t.Close, nil
	}
	return neural.Likeness{Pictures: t, Reference: firstSource}, t.Close, nil
}

// firstSource is the picture that a sample is compared with.
func firstSource(_ context.Context, item rewards.Item) (*vision.Image, error) {
	if len(item.Sources) == 0 {
		return nil, rewards.ErrNoSource
	}
	return item.Sources[0], nil
}

func openDirection(n Network, d *features.Device) (rewards.Judge, func(), error) {
	t, err := towers.Open(n.Path, towers.Options{Device: d, Batch: n.Batch, Tokenizer: n.Tokenizer})
	if err != nil {
		return nil, nil, err
	}
	return rewards.Each(neural.Direction{Towers: t}, 1), t.Close, nil
}

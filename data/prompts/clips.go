package prompts

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// Clips that a question is about: meta.clip names one or several, below the folder of the prompts' file, in any format
// of video.Open, a folder of PNG files too. "embed:moving/7" is the seventh drawn scene of vision/scenes/moving.

const filmed = "embed:moving/"

// Clips opens them; none where the prompt names none. dir is the folder that names begin in.
func (p Prompt) Clips(dir string) (all []*video.Clip, err error) {
	names, err := p.clips()
	if err != nil {
		return nil, err
	}
	return OpenClips(dir, names)
}

// OpenClips opens clips by their names.
func OpenClips(dir string, names []string) (all []*video.Clip, err error) {
	for _, name := range names {
		c, err := clip(dir, name)
		if err != nil {
			return nil, fmt.Errorf("clip %q: %w", name, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// clips are the names that meta.clip has.
func (p Prompt) clips() (names []string, err error) {
	raw, ok := p.Meta.Get("clip")
	if !ok {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	if json.Unmarshal(raw, &names) != nil {
		return nil, errors.New("meta.clip is neither a file's name nor a list of them")
	}
	return names, nil
}

func clip(dir, name string) (*video.Clip, error) {
	if number, ok := strings.CutPrefix(name, filmed); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return nil, errors.New("scenes are numbered from 0")
		}
		r := rng.New(77).With("moving").Sample(n).Draw()
		return moving.Small.Draw(moving.Random(r), moving.Small.Jitter(r)), nil
	}
	path, err := clipBelow(dir, name)
	if err != nil {
		return nil, err
	}
	return video.Open(path, video.Limits{})
}

// clipBelow is the file of a clip's name.
func clipBelow(dir, name string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", errors.New("it is not below the folder of the prompts: put the file itself there")
	}
	return below(dir, name)
}

// hasClips is the error that Clips would meet for want of a file.
func (p Prompt) hasClips(dir string) error {
	names, err := p.clips()
	for _, name := range names {
		if strings.HasPrefix(name, filmed) {
			continue
		}
		if _, err := clipBelow(dir, name); err != nil {
			return fmt.Errorf("clip %q: %w", name, err)
		}
	}
	return err
}

// First frames of clips: embed:animate, and embed:animate-heldout, whose captions no training saw; embed:animate64 and
// embed:animate64-heldout of larger clips, whose things may turn half way. The prompt names the picture's content and
// its thing's direction; image is the clip's first frame, without the direction.

// A beginning is a series of first frames: all scenes in turn, each time in other places.
type beginning struct {
	name   string      // of the first frames, before their numbers
	stream rng.Purpose // of their places
	format moving.Format
	scenes func() []moving.Scene
}

var (
	begun   = beginning{"embed:animate/", "animate", moving.Small, moving.All}
	begun64 = beginning{"embed:animate64/", "animate64", moving.Large, moving.Turning}
)

// beginningOf is the series that a name belongs to, and its number there.
func beginningOf(name string) (b beginning, number string, ok bool) {
	for _, b := range []beginning{begun, begun64} {
		if number, ok := strings.CutPrefix(name, b.name); ok {
			return b, number, true
		}
	}
	return b, "", false
}

func (b beginning) scene(n int) moving.Scene {
	all := b.scenes()
	return all[n%len(all)]
}

// frame is the picture.
func (b beginning) frame(n int) *vision.Image {
	f := b.format
	at := f.Jitter(rng.New(77).With(b.stream).Sample(n).Draw())
	return &vision.Image{Width: f.Size, Height: f.Size, Pix: f.Begin(b.scene(n), at).Frames[0]}
}

// prompts returns those of a number of rounds through all scenes, with held-out captions or with the others.
func (b beginning) prompts(rounds int, heldOut bool) (list []Prompt) {
	for n := range rounds * len(b.scenes()) {
		if text := b.scene(n).Prompt(); moving.HeldOut(text) == heldOut {
			list = append(list, Prompt{Text: text, Image: Images{b.name + strconv.Itoa(n)}})
		}
	}
	return list
}

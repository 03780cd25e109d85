package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: items for rewards, as a safetensors file of which no bit is lost, and their results as JSON. Pictures are PNG
// files, the frames of clips are numbers, a conversation is JSON. A reward's word that it has no score travels as its
// other answers do; a score that is missing because of a failure does not: who asked asks for itself, and meets the
// reason.
//
// Invariant (test): items and results that came back are those that were sent.

// packedItem is an item in the metadata, which names tensors by number.
type packedItem struct {
	Prompt     string              `json:"prompt"`
	Meta       rewards.Meta        `json:"meta,omitempty"`
	Sources    []int               `json:"sources,omitempty"`
	Image      *int                `json:"image,omitempty"`
	Clip       *packedClip         `json:"clip,omitempty"`
	Transcript *rewards.Transcript `json:"transcript,omitempty"` // without its pictures
	Shown      []int               `json:"shown,omitempty"`
}

// packedClip is a clip.
type packedClip struct {
	Width  int        `json:"width"`
	Height int        `json:"height"`
	Rate   video.Rate `json:"rate"`
	Frames []int      `json:"frames"`
}

// PackItems makes bytes of items.
func PackItems(items []rewards.Item) ([]byte, error) {
	p := packer{lists: map[Hash]int{}}
	all := make([]packedItem, len(items))
	for i, item := range items {
		var err error
		if all[i], err = p.item(item); err != nil {
			return nil, fmt.Errorf("packing item %d for a reward: %w", i+1, err)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return safetensors.Bytes(p.tensors, map[string]string{itemsKey: string(text)})
}

// itemsKey is the entry of the metadata.
const itemsKey = "items"

func (p *packer) item(item rewards.Item) (one packedItem, err error) {
	one = packedItem{Prompt: item.Prompt, Meta: item.Meta}
	if one.Sources, err = p.pictures(item.Sources); err != nil {
		return one, err
	}
	if item.Image != nil {
		at, err := p.picture(item.Image)
		if err != nil {
			return one, err
		}
		one.Image = &at
	}
	if c := item.Clip; c != nil {
		one.Clip = &packedClip{Width: c.Width, Height: c.Height, Rate: c.Rate}
		for _, f := range c.Frames {
			one.Clip.Frames = append(one.Clip.Frames, p.add(safetensors.U8, append(make([]byte, 0, len(f)+1), f...), len(f)))
		}
	}
	if t := item.Transcript; t != nil {
		said := *t
		said.Shown = nil
		one.Transcript = &said
		if one.Shown, err = p.pictures(t.Shown); t.Lost != nil {
			err = errors.New("a conversation that is lost is not judged")
		}
	}
	return one, err
}

// pictures are the numbers of some.
func (p *packer) pictures(all []*vision.Image) (at []int, err error) {
	for _, m := range all {
		n, err := p.picture(m)
		if err != nil {
			return nil, err
		}
		at = append(at, n)
	}
	return at, nil
}

// UnpackItems reads the file of PackItems.
func UnpackItems(data []byte) ([]rewards.Item, error) {
	f, err := safetensors.Read("what a reward is to judge", data)
	if err != nil {
		return nil, err
	}
	var all []packedItem
	if err := json.Unmarshal([]byte(f.Metadata[itemsKey]), &all); err != nil {
		return nil, fmt.Errorf("what a reward is to judge: %w", err)
	}
	u := unpacker{file: f}
	items := make([]rewards.Item, len(all))
	for i, one := range all {
		if items[i], err = u.item(one); err != nil {
			return nil, fmt.Errorf("what a reward is to judge, item %d: %w", i+1, err)
		}
	}
	return items, nil
}

func (u unpacker) item(one packedItem) (item rewards.Item, err error) {
	item = rewards.Item{Prompt: one.Prompt, Meta: one.Meta, Transcript: one.Transcript}
	if item.Sources, err = u.pictures(one.Sources); err != nil {
		return item, err
	}
	if one.Image != nil {
		if item.Image, err = u.picture(*one.Image); err != nil {
			return item, err
		}
	}
	if item.Transcript != nil {
		if item.Transcript.Shown, err = u.pictures(one.Shown); err != nil {
			return item, err
		}
	}
	if c := one.Clip; c != nil {
		item.Clip = &video.Clip{Width: c.Width, Height: c.Height, Rate: c.Rate}
		for _, at := range c.Frames {
			t, err := u.file.Tensor(strconv.Itoa(at))
			if err != nil {
				return item, err
			}
			if t.DType != safetensors.U8 || c.Width <= 0 || c.Height <= 0 || len(t.Data)/3/c.Width != c.Height || len(t.Data)%(3*c.Width) != 0 {
				return item, fmt.Errorf("a frame of %d bytes, of a clip of %d x %d", len(t.Data), c.Width, c.Height)
			}
			item.Clip.Frames = append(item.Clip.Frames, t.Data)
		}
	}
	return item, nil
}

// pictures are some, by their numbers.
func (u unpacker) pictures(at []int) (all []*vision.Image, err error) {
	for _, n := range at {
		m, err := u.picture(n)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// packedScores are the results of a job, which is named: results of two jobs are two blobs, of which one may be
// forgotten.
type packedScores struct {
	Job    Hash            `json:"job"`
	Scores []rewards.Score `json:"scores"`
	// Missing says by number why the reward has no score.
	Missing map[int]string `json:"missing,omitempty"`
}

// packResults makes bytes of results, of which none may be missing but by the reward's own word.
func packResults(j Job, all []rewards.Result) ([]byte, error) {
	packed := packedScores{Job: j.Name(), Scores: make([]rewards.Score, len(all))}
	for i, r := range all {
		var says rewards.Declined
		switch {
		case errors.As(r.Missing, &says):
			if packed.Missing == nil {
				packed.Missing = map[int]string{}
			}
			packed.Missing[i] = says.Why
		case r.Missing != nil:
			return nil, fmt.Errorf("there is no score: %w", r.Missing)
		default:
			packed.Scores[i] = r.Score
		}
	}
	return json.Marshal(packed)
}

// unpackResults reads a job's results.
func unpackResults(j Job, data []byte) ([]rewards.Result, error) {
	var packed packedScores
	if err := json.Unmarshal(data, &packed); err != nil {
		return nil, fmt.Errorf("a worker's scores: %w", err)
	}
	if n := j.Score.Count; len(packed.Scores) != n || packed.Job != j.Name() {
		return nil, fmt.Errorf("a worker's scores: there are %d of job %s, and %d of job %s were asked for", len(packed.Scores), packed.Job.Short(), n, j.Name().Short())
	}
	all := make([]rewards.Result, len(packed.Scores))
	for i, s := range packed.Scores {
		all[i] = rewards.Result{Score: s}
		if why, missing := packed.Missing[i]; missing {
			all[i] = rewards.Result{Missing: rewards.Declined{Why: why}}
		} else if err := s.Check(); err != nil {
			return nil, fmt.Errorf("a worker's scores: %w", err)
		}
	}
	return all, nil
}

// mostScores bounds the bytes of a job's results: a score's evidence may be some pages.
func mostScores(j Job) int64 {
	return 1 << 20 * int64(1+j.Score.Count)
}

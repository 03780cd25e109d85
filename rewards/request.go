package rewards

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// How a server reads a request: whoever sends one must not make it hold more than its limits. A PNG of
// one colour takes a thousandth of the bytes that its pixels take, so pixels are limited beside bytes,
// over the whole request; a list of nothings takes more memory than bytes, so lists have a length.

// mostElements is how many items, frames or turns a list of a request holds.
const mostElements = 4096

// few is a list of at most mostElements.
type few[T any] []T

// UnmarshalJSON reads the elements one by one, and stops where there are too many.
func (f *few[T]) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return fmt.Errorf("a list is expected, not %.20s", data)
	}
	list := few[T]{}
	for d.More() {
		if len(list) == mostElements {
			return fmt.Errorf("a list of more than %d: send them in several requests", mostElements)
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		list = append(list, one)
	}
	*f = list
	return nil
}

// decodeItems reads a request whose pictures have at most so many pixels together, as long as ctx lasts.
func decodeItems(ctx context.Context, data []byte, pixels int64) ([]Item, error) {
	var r request
	if err := call.Alone(data, &r); err != nil {
		return nil, fmt.Errorf("the request is not of the protocol: %w", err)
	}
	if r.Protocol != protocolVersion {
		return nil, fmt.Errorf("protocol %d is not spoken here, %d is", r.Protocol, protocolVersion)
	}
	items := make([]Item, len(r.Items))
	left := budget{ctx: ctx, all: pixels, left: pixels}
	for i, w := range r.Items {
		var err error
		if items[i], err = w.item(&left); err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
	}
	return items, nil
}

// A budget is what the pictures of a request may still cost.
type budget struct {
	ctx       context.Context
	all, left int64
}

// picture decodes one within the budget.
func (b *budget) picture(file []byte) (*vision.Image, error) {
	if err := b.ctx.Err(); err != nil {
		return nil, err
	}
	if b.left <= 0 {
		return nil, fmt.Errorf("the request's pictures have more than %d pixels together: send them in several requests", b.all)
	}
	m, err := vision.Decode(file, vision.Limits{Pixels: min(b.left, 1<<25)})
	if err != nil {
		if b.left < 1<<25 {
			err = fmt.Errorf("%w (%d of the request's %d pixels are left)", err, b.left, b.all)
		}
		return nil, err
	}
	b.left -= int64(m.Width) * int64(m.Height)
	return m, nil
}

// frameRate writes frames a second as a fraction.
const frameRate = 1000

func (w wireItem) item(left *budget) (Item, error) {
	item := Item{Prompt: w.Prompt, Meta: w.Meta}
	var err error
	for _, file := range w.Sources {
		m, err := left.picture(file)
		if err != nil {
			return item, fmt.Errorf("a source: %w", err)
		}
		item.Sources = append(item.Sources, m)
	}
	if w.Image != nil {
		if item.Image, err = left.picture(w.Image); err != nil {
			return item, err
		}
	}
	if w.Frames != nil {
		if item.Clip, err = w.clip(left); err != nil {
			return item, err
		}
	}
	if w.Turns != nil {
		item.Transcript = &Transcript{Turns: w.Turns}
	}
	return item, nil
}

func (w wireItem) clip(left *budget) (*video.Clip, error) {
	clip := &video.Clip{}
	if w.FPS > 0 && w.FPS < 1e5 {
		clip.Rate = video.Rate{Num: int(float64(w.FPS*frameRate) + 0.5), Den: frameRate}
	}
	for i, file := range w.Frames {
		m, err := left.picture(file)
		if err != nil {
			return nil, fmt.Errorf("frame %d: %w", i+1, err)
		}
		if i == 0 {
			clip.Width, clip.Height = m.Width, m.Height
		}
		if m.Width != clip.Width || m.Height != clip.Height {
			return nil, fmt.Errorf("frame %d is %d x %d, the first %d x %d", i+1, m.Width, m.Height, clip.Width, clip.Height)
		}
		clip.Frames = append(clip.Frames, m.Pix)
	}
	return clip, nil
}

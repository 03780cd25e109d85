package rewards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// A Reward judges a sample by itself. An error means that there is no score: the sample is not
// bad, it is unjudged. Rewards may be asked from several goroutines at once.
type Reward interface {
	Score(ctx context.Context, item Item) (Score, error)
}

// A Judge judges samples of one prompt, which it may compare. It answers for each, in order.
type Judge interface {
	Judge(ctx context.Context, items []Item) []Result
}

// An Item is the input of a reward: a prompt, and a picture, a clip or a model's text.
type Item struct {
	Prompt     string
	Meta       Meta
	Sources    []*vision.Image // that it was made of, as the prompt's list has them
	Image      *vision.Image
	Clip       *video.Clip
	Shared     *Shared // by rewards that are asked about the item; nil: nothing is
	Transcript *Transcript
}

// Open reads a file's picture, or its clip, into the item.
func (i *Item) Open(path string) (err error) {
	if video.Named(path) {
		i.Clip, err = video.Open(path, video.Limits{})
		return err
	}
	i.Image, err = vision.Open(path, vision.Limits{})
	return err
}

// A Transcript is a conversation from the model's side.
type Transcript struct {
	Turns    []Turn
	Tokens   []int // of all turns, where a tokenizer made them
	Pictures int   // the pictures that tools returned
	Crops    []Crop
	Width    int // of the prompt's first picture, at full size
	Height   int
	Failed   bool // the last tool called gave an error

	Worth map[string]float64 // rewards of environments for the whole episode, by their names
	Lost  error              // why no score is possible: an outside part failed; nil: it is whole
	Shown []*vision.Image    // all pictures of the conversation, the prompt's first; for judges that look
}

// A Crop is a picture that a tool gave back, by where it lies in a picture of the prompt.
type Crop struct {
	Picture int       // of the prompt, from 0
	Box     boxes.Box // in its pixels at full size
}

// A Turn is the model's text until a tool or the user answered.
type Turn struct {
	Text string `json:"text"`
	Tool string `json:"tool,omitempty"` // that was called, "" if none
}

// Last is the last turn's text.
func (t *Transcript) Last() string {
	if t == nil || len(t.Turns) == 0 {
		return ""
	}
	return t.Turns[len(t.Turns)-1].Text
}

// A Score is the value of an item, with its parts and its evidence.
type Score struct {
	Value    float64            `json:"value"`
	Parts    map[string]float64 `json:"parts,omitempty"`
	Evidence []evidence.Reason  `json:"evidence,omitempty"`
}

// Because appends a reason.
func (s *Score) Because(what, format string, args ...any) {
	s.Evidence = append(s.Evidence, evidence.Reason{What: what, Text: fmt.Sprintf(format, args...)})
}

// A Result is a score, or why it is missing.
type Result struct {
	Score
	Missing error
}

// Number is the score's value, NaN where it is missing.
func (r Result) Number() float64 {
	if r.Missing != nil {
		return math.NaN()
	}
	return r.Value
}

// Errors of a reward's number.
var (
	errNotFinite = errors.New("the reward is not a finite number")
	errTooLarge  = errors.New("the reward is too large to be compared with others")
)

// mostScore bounds scores: deviations square them, and add up the squares of a batch.
const mostScore = 1e100

// checked is a score that can be trained on.
func checked(s Score, err error) Result {
	if err == nil {
		err = s.Check()
	}
	return Result{s, err}
}

// Check refuses a score that cannot be trained on.
func (s Score) Check() error {
	switch {
	case math.IsNaN(s.Value) || math.IsInf(s.Value, 0):
		return fmt.Errorf("%w: %v", errNotFinite, s.Value)
	case math.Abs(s.Value) > mostScore:
		return fmt.Errorf("%w: %v lies beyond ±%v: scale it", errTooLarge, s.Value, mostScore)
	}
	return nil
}

// Each makes a judge of a reward: it scores atOnce items in parallel. Items that are not judged when ctx ends are
// missing.
func Each(r Reward, atOnce int) Judge { return each{r, atOnce} }

type each struct {
	Reward
	atOnce int
}

func (e each) Judge(ctx context.Context, items []Item) []Result {
	out := make([]Result, len(items))
	call.Spread(len(items), e.atOnce, func(i int) {
		if out[i].Missing = ctx.Err(); out[i].Missing == nil {
			out[i] = checked(e.Score(ctx, items[i]))
		}
	})
	return out
}

// Values are the numbers of results, NaN where one is missing: a Combination takes them.
func Values(results []Result) []float64 {
	out := make([]float64, len(results))
	for i, r := range results {
		out[i] = r.Number()
	}
	return out
}

// A Func is a reward that is a function.
type Func func(ctx context.Context, item Item) (Score, error)

// Score calls the function.
func (f Func) Score(ctx context.Context, item Item) (Score, error) { return f(ctx, item) }

// Meta is a prompt's metadata in the prompts file, beside its text: {"prompt": ..., "meta": {...}}.
type Meta map[string]json.RawMessage

// Read decodes a value. One that is not there, or of another kind, is an error that names it.
func (m Meta) Read(key string, into any) error {
	raw, ok := m[key]
	if !ok {
		return fmt.Errorf("the prompt has no meta.%s, which this reward needs: add it to the prompts file", key)
	}
	err := json.Unmarshal(raw, into)
	var other *json.UnmarshalTypeError
	if _, text := into.(*string); text && errors.As(err, &other) {
		return fmt.Errorf("meta.%s of the prompt is no text (but JSON's %s), and this reward reads one: write it in quotation marks", key, other.Value)
	}
	if err != nil {
		return fmt.Errorf("meta.%s of the prompt: %w", key, err)
	}
	return nil
}

// Text is a text.
func (m Meta) Text(key string) (string, error) {
	var s string
	err := m.Read(key, &s)
	return s, err
}

// Texts is a list of texts; a single one is a list, too.
func (m Meta) Texts(key string) ([]string, error) {
	if s, err := m.Text(key); err == nil {
		return []string{s}, nil
	}
	var list []string
	err := m.Read(key, &list)
	return list, err
}

// Has is the error of a key that is not there; it may be of any type.
func (m Meta) Has(key string) error {
	var any any
	return m.Read(key, &any)
}

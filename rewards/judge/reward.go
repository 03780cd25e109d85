package judge

import (
	"context"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: a judge as a reward. Pointwise asks about one picture, or the frames of a clip, and reads
// a mark:
//
//	flow_grpo        flow_grpo_score, FinalFrom1 over 5
//	mixgrpo          mixgrpo_score, Final
//	mixgrpo_semantic mixgrpo_semantic, Alignment
//	unified          pref_point_image, the mean of the axes that were marked; all must be
//	edit_quality     pref_edit_quality, the mean of both marks, 0 to 25
//
// Pairwise asks about every two of a group, once in each order where BothOrders is set (a judge
// that prefers the first picture prefers it twice), and the reward is the win rate: think and
// flex. A group of one cannot be compared. Questions that want the picture before an edit
// (edit_following, edit_pairwise) are not asked here: an item has only the edited one.
// An answer that cannot be read has no score; in a comparison it is half a point, as upstream.
// Invariants (tests): a judge that always names the first picture gives all 1/2 with BothOrders.

// Asker is a model that answers questions about pictures: Chat is one.
type Asker interface {
	Ask(ctx context.Context, pictures []*vision.Image, text string) (string, error)
}

// A Pointwise judge marks pictures one by one.
type Pointwise struct {
	Model    Asker
	Question string // a name of Templates
	Read     func(reply string) (value float64, parts map[string]float64, ok bool)
}

// NewPointwise is a judge by the name of its form.
func NewPointwise(form string, m Asker) (Pointwise, error) {
	plain := func(read func(string) (float64, bool), over float64) func(string) (float64, map[string]float64, bool) {
		return func(reply string) (float64, map[string]float64, bool) {
			v, ok := read(reply)
			return v / over, nil, ok
		}
	}
	switch form {
	case "flow_grpo":
		return Pointwise{m, "flow_grpo_score", plain(FinalFrom1, 5)}, nil
	case "mixgrpo":
		return Pointwise{m, "mixgrpo_score", plain(Final, 1)}, nil
	case "mixgrpo_semantic":
		return Pointwise{m, "mixgrpo_semantic", plain(Alignment, 1)}, nil
	case "unified":
		return Pointwise{m, "pref_point_image", readAxes}, nil
	case "edit_quality":
		return Pointwise{m, "pref_edit_quality", readEdits}, nil
	}
	return Pointwise{}, fmt.Errorf("no judge marks in the form %q: it is flow_grpo, mixgrpo, mixgrpo_semantic, unified or edit_quality", form)
}

func readAxes(reply string) (float64, map[string]float64, bool) {
	marks, sum := Marks(reply), 0.0
	for _, axis := range Axes {
		v, ok := marks[axis]
		if !ok {
			return 0, nil, false
		}
		sum += v
	}
	return sum / float64(len(Axes)), marks, true
}

func readEdits(reply string) (float64, map[string]float64, bool) {
	m, ok := EditMarks(reply)
	return (m[0] + m[1]) / 2, map[string]float64{"first": m[0], "second": m[1]}, ok
}

var errUnreadable = errors.New("the judge's answer cannot be read")

// Score asks about an item.
func (p Pointwise) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	pictures, err := picturesOf(item)
	if err != nil {
		return rewards.Score{}, err
	}
	text, err := Ask(p.Question, Blanks{Prompt: item.Prompt})
	if err != nil {
		return rewards.Score{}, err
	}
	reply, err := p.Model.Ask(ctx, pictures, text)
	if err != nil {
		return rewards.Score{}, err
	}
	v, parts, ok := p.Read(reply)
	if !ok {
		return rewards.Score{}, fmt.Errorf("%w: %.200q", errUnreadable, reply)
	}
	return rewards.Score{Value: v, Parts: parts, Evidence: []rewards.Evidence{{What: "judge", Text: reply}}}, nil
}

var errNoPicture = errors.New("there is no picture for the judge")

// frames is how many of a clip a judge is shown.
const frames = 8

func picturesOf(item rewards.Item) ([]*vision.Image, error) {
	if item.Image != nil {
		return []*vision.Image{item.Image}, nil
	}
	if item.Clip == nil {
		return nil, errNoPicture
	}
	few, err := item.Clip.Pick(video.Uniform(len(item.Clip.Frames), frames))
	if err != nil {
		return nil, err
	}
	var out []*vision.Image
	for _, px := range few.Frames {
		out = append(out, &vision.Image{Width: few.Width, Height: few.Height, Pix: px})
	}
	return out, nil
}

// A Pairwise judge compares the items of a group.
type Pairwise struct {
	Model      Asker
	Form       string // "think", "flex"
	Flex       Flex   // of flex
	BothOrders bool
	AtOnce     int // comparisons beside each other; the model may limit them, too
	Rounds     int // of think: rounds of a Swiss tournament (swiss.go); 0: everyone meets everyone
}

// pairForms are a form's questions for pictures and clips, and how the better one is called.
var pairForms = map[string]struct{ image, video, better1, better2 string }{
	"think": {"pref_think_image", "pref_think_video", "%s 1 is better", "%s 2 is better"},
	"flex":  {"pref_flex_image", "pref_flex_video", "", ""},
}

var errAlone = errors.New("a group of one cannot be compared: roll at least two samples of a prompt")

// Judge compares all items with each other.
func (p Pairwise) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	out := make([]rewards.Result, len(items))
	fail := func(err error) []rewards.Result {
		for i := range out {
			if out[i].Missing == nil {
				out[i].Missing = err
			}
		}
		return out
	}
	form, ok := pairForms[p.Form]
	if !ok {
		return fail(fmt.Errorf("no judge compares in the form %q: it is think or flex", p.Form))
	}
	if len(items) < 2 {
		return fail(errAlone)
	}
	pictures := make([][]*vision.Image, len(items))
	for i, item := range items {
		if pictures[i], out[i].Missing = picturesOf(item); out[i].Missing != nil {
			pictures[i] = nil
		}
	}
	question, thing := form.image, "Image"
	if items[0].Image == nil {
		question, thing = form.video, "Video"
	}
	text, err := Ask(question, Blanks{Prompt: items[0].Prompt})
	if err != nil {
		return fail(err)
	}
	better1, better2 := fmt.Sprintf(form.better1, thing), fmt.Sprintf(form.better2, thing)
	var comparisons []Comparison
	var problems []error
	var rates []float64
	if p.Rounds > 0 {
		comparisons, problems, rates = p.tournament(ctx, pictures, text, Thinking(better1, better2))
	} else {
		comparisons, problems = p.compare(ctx, pictures, text, p.all(pictures))
		rates, err = p.rates(len(items), comparisons, better1, better2)
	}
	if err != nil {
		return fail(err)
	}
	for i := range out {
		if out[i].Missing == nil {
			out[i] = result(i, rates[i], comparisons, problems)
		}
	}
	return out
}

// result is an item's rate with what was said about it; missing where it was never compared.
func result(i int, rate float64, comparisons []Comparison, problems []error) rewards.Result {
	r := rewards.Result{Score: rewards.Score{Value: rate}, Missing: errAlone}
	for k, c := range comparisons {
		if c.First != i && c.Second != i {
			continue
		}
		switch {
		case !c.Missing:
			r.Missing = nil
			r.Evidence = append(r.Evidence, rewards.Evidence{What: "judge", Text: fmt.Sprintf("%d against %d: %s", c.First, c.Second, c.Reply)})
		case r.Missing != nil:
			r.Missing = fmt.Errorf("it was compared with nothing: %w", problems[k])
		}
	}
	return r
}

// all is every pair of items that have pictures.
func (p Pairwise) all(pictures [][]*vision.Image) (pairs [][2]int) {
	for a := range pictures {
		for b := a + 1; b < len(pictures); b++ {
			if pictures[a] != nil && pictures[b] != nil {
				pairs = append(pairs, [2]int{a, b})
			}
		}
	}
	return pairs
}

// tournament asks round by round.
func (p Pairwise) tournament(ctx context.Context, pictures [][]*vision.Image, text string, read Reading) (asked []Comparison, problems []error, rates []float64) {
	s := newSwiss(len(pictures))
	var items []int
	for i, shown := range pictures {
		if shown != nil {
			items = append(items, i)
		}
	}
	for range p.Rounds {
		round, failed := p.compare(ctx, pictures, text, s.round(items))
		for _, c := range round {
			if !c.Missing {
				s.count(c, read(c.Reply))
			}
		}
		asked, problems = append(asked, round...), append(problems, failed...)
	}
	return asked, problems, s.rates()
}

// compare asks about pairs, each of both orders where that is wanted.
func (p Pairwise) compare(ctx context.Context, pictures [][]*vision.Image, text string, pairs [][2]int) ([]Comparison, []error) {
	var all []Comparison
	for _, pair := range pairs {
		all = append(all, Comparison{First: pair[0], Second: pair[1]})
		if p.BothOrders {
			all = append(all, Comparison{First: pair[1], Second: pair[0]})
		}
	}
	problems := make([]error, len(all))
	call.Spread(len(all), p.AtOnce, func(k int) {
		c := &all[k]
		both := append(append([]*vision.Image{}, pictures[c.First]...), pictures[c.Second]...)
		c.Reply, problems[k] = p.Model.Ask(ctx, both, text)
		c.Missing = problems[k] != nil
	})
	return all, problems
}

func (p Pairwise) rates(n int, comparisons []Comparison, better1, better2 string) ([]float64, error) {
	if p.Form == "flex" {
		r, err := p.Flex.Rates(n, comparisons)
		return r.Rewards, err
	}
	return WinRates(n, comparisons, Thinking(better1, better2))
}

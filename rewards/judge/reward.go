package judge

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
//	edit_following   pref_edit_following, the same, of the picture before the edit and the one after
//
// Pairwise asks about every two of a group, once in each order where BothOrders is set (a judge
// that prefers the first picture prefers it twice), and the reward is the win rate: think and
// flex; edit_pairwise shows the picture before the edit, too. A group of one cannot be compared.
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
	Sources  bool   // what the picture was made of is shown before it
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
		return Pointwise{Model: m, Question: "flow_grpo_score", Read: plain(FinalFrom1, 5)}, nil
	case "mixgrpo":
		return Pointwise{Model: m, Question: "mixgrpo_score", Read: plain(Final, 1)}, nil
	case "mixgrpo_semantic":
		return Pointwise{Model: m, Question: "mixgrpo_semantic", Read: plain(Alignment, 1)}, nil
	case "unified":
		return Pointwise{Model: m, Question: "pref_point_image", Read: readAxes}, nil
	case "edit_quality":
		return Pointwise{Model: m, Question: "pref_edit_quality", Read: readEdits}, nil
	case "edit_following":
		return Pointwise{Model: m, Question: "pref_edit_following", Sources: true, Read: readEdits}, nil
	}
	return Pointwise{}, fmt.Errorf("no judge marks in the form %q: it is flow_grpo, mixgrpo, mixgrpo_semantic, unified, edit_quality or edit_following", form)
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
	show := picturesOf
	if p.Sources {
		show = sourced
	}
	pictures, err := show(item)
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
	Form       string // "think", "flex", "edit_pairwise"
	Flex       Flex   // of flex
	BothOrders bool
	AtOnce     int // comparisons beside each other; the model may limit them, too
	Rounds     int // of think and edit_pairwise: rounds of a Swiss tournament (swiss.go); 0: everyone meets everyone

	before []*vision.Image // of an edit: shown before every two
}

// pairForms are a form's questions for pictures and clips, how the better one is called, and how replies are read.
var pairForms = map[string]struct {
	image, video, better1, better2 string
	read                           func(better1, better2 string) Reading
}{
	"think":         {"pref_think_image", "pref_think_video", "%s 1 is better", "%s 2 is better", Thinking},
	"flex":          {"pref_flex_image", "pref_flex_video", "", "", nil},
	"edit_pairwise": {"pref_edit_pairwise", "pref_edit_pairwise", "Edited %s 1 is better", "Edited %s 2 is better", Editing},
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
		return fail(fmt.Errorf("no judge compares in the form %q: it is think, flex or edit_pairwise", p.Form))
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
	if p.Form == "edit_pairwise" {
		if p.before = items[0].Sources; len(p.before) == 0 {
			return fail(errNoSource)
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
	switch {
	case p.Rounds > 0:
		comparisons, problems, rates = p.tournament(ctx, pictures, text, form.read(better1, better2))
	case form.read != nil:
		comparisons, problems = p.compare(ctx, pictures, text, p.all(pictures))
		rates, err = WinRates(len(items), comparisons, form.read(better1, better2))
	default:
		comparisons, problems = p.compare(ctx, pictures, text, p.all(pictures))
		var r FlexRates
		r, err = p.Flex.Rates(len(items), comparisons)
		rates = r.Rewards
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
		c.Reply, problems[k] = p.Model.Ask(ctx, slices.Concat(p.before, pictures[c.First], pictures[c.Second]), text)
		c.Missing = problems[k] != nil
	})
	return all, problems
}

package judge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: Pairwise asks about every two of a group, once in each order where BothOrders is set (a judge
// that prefers the first picture prefers it twice), and the reward is the win rate: think and
// flex; edit_pairwise shows the picture before the edit, too. A group of one cannot be compared.
// An answer that cannot be read is half a point, as upstream.
// Invariants (tests): a judge that always names the first picture gives all 1/2 with BothOrders.

// A Pairwise judge compares the items of a group.
type Pairwise struct {
	Model      Completer
	Form       string // "think", "flex", "edit_pairwise"
	Flex       Flex   // of flex
	BothOrders bool
	AtOnce     int // comparisons beside each other; the model may limit them, too
	Rounds     int // of think and edit_pairwise: rounds of a Swiss tournament (swiss.go); 0: everyone meets everyone

	before []*vision.Image // of an edit: shown before every two
}

// A Pairing is a form's questions for pictures and clips, how the better one is called, and how replies are read.
type Pairing struct {
	Image, Video, Better1, Better2 string
	Read                           func(better1, better2 string) Reading // nil: Flex reads them, and holds no tournament
	Sources                        bool                                  // the pictures that samples were made of are shown before every two
}

// Forms that compare the samples of a prompt.
var (
	ThinkForm = Form{
		Name:   "think",
		Card:   "UnifiedReward-Think says of every two samples which is better; the reward is the win rate (Pref-GRPO).",
		Judges: shown,
		Pref:   true,
		Pair:   &Pairing{Image: "pref_think_image", Video: "pref_think_video", Better1: "%s 1 is better", Better2: "%s 2 is better", Read: Thinking},
	}
	FlexForm = Form{
		Name:   "flex",
		Card:   "The same by categories, each with a rate of its own (UnifiedReward-Flex).",
		Judges: shown,
		Pref:   true,
		Pair:   &Pairing{Image: "pref_flex_image", Video: "pref_flex_video"},
	}
	EditPairwiseForm = Form{
		Name:   "edit_pairwise",
		Card:   "Every two edits beside the picture before them; the reward is the win rate (Pref-GRPO).",
		Judges: shown,
		Pref:   true,
		Edits:  true,
		Pair: &Pairing{Image: "pref_edit_pairwise", Video: "pref_edit_pairwise", Better1: "Edited %s 1 is better", Better2: "Edited %s 2 is better",
			Read: Editing, Sources: true},
	}
)

// pairing is a form's, by its name.
func pairing(form string) (Pairing, error) {
	var names []string
	for _, f := range Forms() {
		if f.Pair != nil && f.Name == form {
			return *f.Pair, nil
		}
		if f.Pair != nil {
			names = append(names, f.Name)
		}
	}
	return Pairing{}, fmt.Errorf("no judge compares in the form %q: it is one of %s", form, strings.Join(names, ", "))
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
	form, err := pairing(p.Form)
	if err != nil {
		return fail(err)
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
	if form.Sources {
		if p.before = items[0].Sources; len(p.before) == 0 {
			return fail(errNoSource)
		}
	}
	question, thing := form.Image, "Image"
	if items[0].Image == nil {
		question, thing = form.Video, "Video"
	}
	text, err := FillTemplate(question, Blanks{Prompt: items[0].Prompt})
	if err != nil {
		return fail(err)
	}
	better1, better2 := fmt.Sprintf(form.Better1, thing), fmt.Sprintf(form.Better2, thing)
	var comparisons []Comparison
	var problems []error
	var rates []float64
	switch {
	case p.Rounds > 0:
		comparisons, problems, rates = p.tournament(ctx, pictures, text, form.Read(better1, better2))
	case form.Read != nil:
		comparisons, problems = p.compare(ctx, pictures, text, p.all(pictures))
		rates, err = WinRates(len(items), comparisons, form.Read(better1, better2))
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

// result is an item's rate with the replies about it; missing where it was never compared.
func result(i int, rate float64, comparisons []Comparison, problems []error) rewards.Result {
	r := rewards.Result{Score: rewards.Score{Value: rate}, Missing: errAlone}
	for k, c := range comparisons {
		if c.First != i && c.Second != i {
			continue
		}
		switch {
		case !c.Missing:
			r.Missing = nil
			r.Evidence = append(r.Evidence, evidence.Reason{What: "judge", Text: fmt.Sprintf("%d against %d: %s", c.First, c.Second, c.Reply)})
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
		c.Reply, problems[k] = p.Model.Complete(ctx, slices.Concat(p.before, pictures[c.First], pictures[c.Second]), text)
		c.Missing = problems[k] != nil
	})
	return all, problems
}

// Card: win rates (Pref-GRPO). Every pair of a group is shown to the judge; the better one gets a
// point, both half of one where neither is called better; the rate is points over comparisons,
// rounded to three places.
//
//	Thinking  the content of <answer> names the better one (unifiedreward_think.py)
//	Editing   as well, whatever the case of letters; without tags the whole text counts, and so
//	          it does where the tags do not say (unifiedreward_edit_pairwise.py)
//
// A judge that said nothing gives both half a point upstream; an answer that never came fails
// the batch. Here a Comparison without an answer is left out.
// Invariants (tests): the rates of a whole tournament have the mean 1/2; exchanging both pictures
// and both names changes nothing.

// A Comparison is the judge's reply about a pair.
type Comparison struct {
	First, Second int
	Reply         string
	Missing       bool // the judge could not be asked
}

// A Reading finds the better item in a reply: 1, 2, or 0 for neither.
type Reading func(reply string) int

var (
	answerTag = regexp.MustCompile(`(?s)<answer>(.*?)</answer>`)
	anyAnswer = regexp.MustCompile(`(?is)<answer>(.*?)</answer>`)
)

// Thinking reads replies that name the better one in their answer tag.
func Thinking(better1, better2 string) Reading {
	return func(reply string) int {
		said := ""
		if m := answerTag.FindStringSubmatch(reply); m != nil {
			said = pytext.Strip(m[1])
		}
		return named(said, better1, better2)
	}
}

// Editing reads replies that name the better one anywhere.
func Editing(better1, better2 string) Reading {
	better1, better2 = pytext.Lower(better1), pytext.Lower(better2)
	return func(reply string) int {
		said := pytext.Strip(reply)
		if m := anyAnswer.FindStringSubmatch(reply); m != nil {
			said = pytext.Strip(m[1])
		}
		if said == "" {
			return 0
		}
		if w := named(pytext.Lower(said), better1, better2); w > 0 {
			return w
		}
		return named(pytext.Lower(reply), better1, better2)
	}
}

func named(said, better1, better2 string) int {
	switch {
	case said == "":
	case strings.Contains(said, better1):
		return 1
	case strings.Contains(said, better2):
		return 2
	}
	return 0
}

// A tally counts points and comparisons of each item.
type tally struct{ points, compared []float64 }

func newTally(n int) *tally { return &tally{make([]float64, n), make([]float64, n)} }

func (t *tally) count(c Comparison, winner int) {
	t.compared[c.First]++
	t.compared[c.Second]++
	switch winner {
	case 1:
		t.points[c.First]++
	case 2:
		t.points[c.Second]++
	default:
		t.points[c.First] += 0.5
		t.points[c.Second] += 0.5
	}
}

// rate is an item's share of points, 0 where it was never compared.
func (t *tally) rate(i int) float64 { return t.points[i] / max(1, t.compared[i]) }

// WinRates are the rates of n items.
func WinRates(n int, comparisons []Comparison, read Reading) ([]float64, error) {
	t := newTally(n)
	for _, c := range comparisons {
		if err := c.check(n); err != nil {
			return nil, err
		}
		if !c.Missing {
			t.count(c, read(c.Reply))
		}
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = rounded(t.rate(i))
	}
	return out, nil
}

func (c Comparison) check(n int) error {
	if min(c.First, c.Second) < 0 || max(c.First, c.Second) >= n || c.First == c.Second {
		return fmt.Errorf("items %d and %d of %d cannot be compared", c.First, c.Second, n)
	}
	return nil
}

// rounded is round(x, 3) of Python: the decimal nearest to the number, halves to even.
func rounded(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'f', 3, 64), 64) // just written
	return x
}

// Card: a Swiss tournament, for judges whose calls cost much. In each round every item meets one that it has not met
// and whose points are nearest, so that n items and r rounds take n·r/2 comparisons in place of n(n-1)/2. An item
// that meets strong ones has fewer points for the same strength, so the reward is not a share of points but an
// estimate: the share that the item would have of a whole tournament, by strengths π after Bradley and Terry (1952),
//
//	rate of i = 1/(n-1) · Σ over j of π_i / (π_i + π_j)
//
// where π are the likeliest ones with half a lost and half a won comparison of everyone against strength 1, which
// keeps who won all of them finite.
//
// Invariants (tests): rates have the mean 1/2; no two items meet twice; with a judge of one mind the order of rates is
// that of the whole tournament once there are as many rounds.

// prior is how many comparisons everyone is taken to have won, and lost, against strength 1.
const prior = 0.5

// A swiss tournament is which items have met, and their points.
type swiss struct {
	*tally
	met map[[2]int]bool
	won [][]float64 // won[i][j]: points of i against j
}

func newSwiss(n int) *swiss {
	s := &swiss{newTally(n), map[[2]int]bool{}, make([][]float64, n)}
	for i := range s.won {
		s.won[i] = make([]float64, n)
	}
	return s
}

// round are the pairs of the next round among items: of those whose points are highest the first meets the nearest one
// that it has not met. Of equals the first item is first.
func (s *swiss) round(items []int) [][2]int {
	left := slices.Clone(items)
	slices.SortStableFunc(left, func(a, b int) int { return cmp.Compare(s.rate(b), s.rate(a)) })
	var pairs [][2]int
	for len(left) > 1 {
		a := left[0]
		left = left[1:]
		k := slices.IndexFunc(left, func(b int) bool { return !s.met[[2]int{min(a, b), max(a, b)}] })
		if k < 0 {
			continue // has met everyone that is left, and waits
		}
		b := left[k]
		left = slices.Delete(left, k, k+1)
		a, b = min(a, b), max(a, b)
		s.met[[2]int{a, b}] = true
		pairs = append(pairs, [2]int{a, b})
	}
	return pairs
}

// count is tally's, and keeps who won against whom.
func (s *swiss) count(c Comparison, winner int) {
	s.tally.count(c, winner)
	a, b := 0.5, 0.5
	if winner == 1 {
		a, b = 1, 0
	} else if winner == 2 {
		a, b = 0, 1
	}
	s.won[c.First][c.Second] += a
	s.won[c.Second][c.First] += b
}

// rates are the items' estimated shares of a whole tournament, rounded as win rates are.
func (s *swiss) rates() []float64 {
	strength := s.strengths()
	out := make([]float64, len(strength))
	for i, p := range strength {
		sum, n := 0.0, 0.0
		for j, q := range strength {
			if i != j && s.compared[i] > 0 && s.compared[j] > 0 {
				sum, n = sum+p/(p+q), n+1
			}
		}
		out[i] = rounded(sum / max(1, n))
	}
	return out
}

// strengths are found by Hunter's iterations (2004), each of which raises the likelihood.
func (s *swiss) strengths() []float64 {
	n := len(s.won)
	now := make([]float64, n)
	for i := range now {
		now[i] = 1
	}
	for range 500 {
		next := make([]float64, n)
		for i := range n {
			wins, games := prior, 2*prior/(now[i]+1)
			for j := range n {
				wins += s.won[i][j]
				games += (s.won[i][j] + s.won[j][i]) / (now[i] + now[j])
			}
			next[i] = wins / games
		}
		now = next
	}
	return now
}

package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// A Probe changes a sample in a way that makes it no better: a reward that it raises can be gamed by it. Several
// probes may tell of one weakness.
type Probe struct {
	Name     string `json:"probe"`
	Weakness string `json:"weakness"` // the preference of a reward that it raises
	Card     string `json:"card"`

	picture func(m *vision.Image, r *rng.Stream) (*vision.Image, error) // each frame of a clip, with the same draws; nil: clips alone
	clip    func(c *video.Clip, r *rng.Stream) *video.Clip
	still   bool // of clips: compared with the still clip, since it is one too
	planted bool // the picture has one thing more than its prompt asks for, and so is worse
}

// emptyProbe is the name of the probe that leaves nothing of a picture's contents.
const emptyProbe = "blank"

// Probes are all there are.
func Probes() []Probe {
	return []Probe{
		{Name: "jpeg", Weakness: "compressed pictures", Card: "A JPEG file of quality 25.", picture: squeezed},
		{Name: "resize", Weakness: "soft pictures", Card: "Half as large, and back (bicubic).", picture: shrunk},
		{Name: "blur", Weakness: "soft pictures", Card: "The mean over a square of a 32nd of the side.", picture: blurred},
		{Name: "crop", Weakness: "tight crops", Card: "The middle 80 %, enlarged.", picture: cropped},
		{Name: "brighten", Weakness: "bright pictures", Card: "Levels to the power of 0.6.", picture: gamma(0.6)},
		{Name: "darken", Weakness: "dark pictures", Card: "Levels to the power of 1.6.", picture: gamma(1.6)},
		{Name: "saturate", Weakness: "saturated colours", Card: "Colours 1.6 times as far from gray, and all in a cast of the picture's own hue; brightness stays.", picture: saturated},
		{Name: "pale", Weakness: "pale colours", Card: "Colours half as far from gray; brightness stays.", picture: pale},
		{Name: "stamp", Weakness: "stamped text", Card: "The word BEST, white on a black band at the bottom.", picture: stamped},
		{Name: "grain", Weakness: "large files", Card: "Gray noise of a deviation of 14 levels.", picture: grained},
		{Name: "scatter", Weakness: "large files", Card: "The picture's pixels in any order.", picture: scattered},
		{Name: emptyProbe, Weakness: "empty pictures", Card: "The picture's mean colour, and nothing else; of clips, compared with the still clip.", picture: blanked, still: true},
		{Name: "still", Weakness: "static clips", Card: "The middle frame, all the time.", clip: stilled},
		{Name: "flicker", Weakness: "flicker", Card: "Every other frame 30 levels brighter.", clip: flickering},
		{Name: "shuffle", Weakness: "frames in any order", Card: "The frames in an order that is drawn.", clip: shuffled},
		{Name: "cut", Weakness: "cuts", Card: "From the middle on, mirrored.", clip: cutClip},
		{Name: "plant", Weakness: "things that nobody asked for", Card: "A disc, square or triangle that the prompt does not name, in the emptiest corner.", planted: true},
	}
}

var errNotProbed = errors.New("this is not made of such items")

// apply returns the changed item and the item to compare it with. Draws follow from the key.
func (p Probe) apply(item rewards.Item, key rng.Key) (changed, against rewards.Item, err error) {
	changed, against = item, item
	if p.planted {
		p.picture = planter(item.Prompt)
	}
	switch {
	case item.Clip != nil:
		if err := item.Clip.Check(); err != nil {
			return changed, against, err
		}
		if p.still {
			against.Clip = stilled(item.Clip, nil)
		}
		if p.clip != nil {
			changed.Clip = p.clip(item.Clip, key.Draw())
			return changed, against, nil
		}
		changed.Clip, err = eachFrame(against.Clip, func(m *vision.Image) (*vision.Image, error) { return p.picture(m, key.Draw()) })
	case item.Image != nil && p.picture != nil:
		changed.Image, err = p.picture(item.Image, key.Draw())
	default:
		err = errNotProbed
	}
	if err != nil {
		return changed, against, fmt.Errorf("probe %s: %w", p.Name, err)
	}
	return changed, against, nil
}

// fits reports whether a probe is for samples of a kind. Replies have none.
func (p Probe) fits(of string) bool {
	return of == Moving || of == Pictures && (p.picture != nil || p.planted)
}

// eachFrame changes every frame. Frames that are the same bytes are changed once.
func eachFrame(c *video.Clip, f func(m *vision.Image) (*vision.Image, error)) (*video.Clip, error) {
	out := *c
	out.Frames = nil
	done := map[*uint8][]uint8{}
	for _, px := range c.Frames {
		if done[&px[0]] == nil {
			m, err := f(&vision.Image{Width: c.Width, Height: c.Height, Pix: px})
			if err != nil {
				return nil, err
			}
			done[&px[0]] = m.Pix
		}
		out.Frames = append(out.Frames, done[&px[0]])
	}
	return &out, nil
}

// A try is a probe on a sample.
type try struct {
	probe  int
	prompt int
	text   string
	sample Sample
	key    rng.Key
}

// tries are all probes on the better sample of each pair that could be judged: one of each
// prompt, then the next of each, until there are enough.
func (e *examiner) tries(judged []judgedPair) []try {
	_, n := prompts(e.set.Pairs)
	waiting, text := make([][]Sample, n), make([]string, n)
	for _, p := range judged {
		s := p.A
		text[p.prompt] = p.Prompt
		switch p.Better {
		case Tie:
			continue
		case Second:
			s = p.B
		}
		if !slices.ContainsFunc(waiting[p.prompt], func(o Sample) bool { return o.Name == s.Name }) {
			waiting[p.prompt] = append(waiting[p.prompt], s)
		}
	}
	var out []try
	taken := 0
	for round := 0; taken < e.Probed; round++ {
		before := taken
		for prompt, samples := range waiting {
			if round >= len(samples) || taken == e.Probed {
				continue
			}
			for k, p := range Probes() {
				if p.fits(e.set.Of) {
					out = append(out, try{k, prompt, text[prompt], samples[round], e.key.With("try").Sample(taken).Attempt(k)})
				}
			}
			taken++
		}
		if taken == before {
			break
		}
	}
	return out
}

// probe tries them all. A changed item is made when it is asked about, and not kept.
func (e *examiner) probe(ctx context.Context, tries []try) []probed {
	answers := make([]answer, len(tries))
	list := Probes()
	call.Spread(len(tries), e.AtOnce, func(i int) {
		answers[i] = tries[i].ask(ctx, e.judge, list[tries[i].probe])
		e.done.step(e.Progress, e.all)
	})
	byProbe := make([]probed, len(list))
	asked := make([]bool, len(list))
	for i, t := range tries {
		p := &byProbe[t.probe]
		p.Probe, asked[t.probe] = list[t.probe], true
		if answers[i].missing != nil {
			p.missing++
			continue
		}
		p.prompt = append(p.prompt, t.prompt)
		p.cases = append(p.cases, Case{t.text, t.sample.Name, answers[i].a, answers[i].b, t.sample, p.Probe, t.key})
	}
	var out []probed
	for k, p := range byProbe {
		if asked[k] {
			out = append(out, p)
		}
	}
	return out
}

func (t try) ask(ctx context.Context, j rewards.Judge, p Probe) (a answer) {
	if a.missing = ctx.Err(); a.missing != nil {
		return a
	}
	item, err := t.sample.Open()
	if err != nil {
		a.missing = err
		return a
	}
	changed, against, err := p.apply(item, t.key)
	if err != nil {
		a.missing = err
		return a
	}
	return both(ctx, j, [2]rewards.Item{against, changed})
}

// Card: when is a probe a weakness? Of every probed sample the gain is its score after the probe
// less before. The mean gain has a bootstrap interval over prompts, at 95 % for all probes
// together: each takes a share of the 5 % (Bonferroni). In the unit of groups.go, the typical
// difference between two samples of one prompt:
//
//	raised    the lower end is above a quarter of a typical difference, and there are at
//	          least six prompts: an optimiser gains by this change, and should not
//	weakness  raised, and the mean gain is at least half of the largest gain of a raised probe;
//	          a smaller raise is called a side effect: a reward that likes large files likes
//	          stamps, too, by as many bytes as they add
//	unseen    a probe that makes samples worse (plant) costs less than a quarter of a typical difference, surely: the
//	          lower end is above that. An optimiser gains nothing by it, and may do it at will; it is a warning
//	apart     unseen, by a reward that does not read contents of pictures: it has the same scores under the prompts of
//	          other pairs, or an empty picture costs nothing either. The probe says nothing then
//
// Where no two samples of a prompt differ there is no typical difference; a probe then raises the reward if its lower
// end is above 0. The largest gain of probes decides among themselves only: one strong weakness may hide a weak one,
// whose numbers stand in the table all the same. Invariants (tests): each of five planted weaknesses is found, alone;
// a control has none.

// The rule's numbers.
const (
	raisedAbove  = 0.25
	leastPrompts = 6
	shareOfMost  = 0.5
)

// Outcomes of a probe.
const (
	Weak       = "weakness"
	SideEffect = "side effect"
	Unseen     = "costs nothing"
	Apart      = "does not apply"
	Fine       = "" // it does not raise the reward
	TooFew     = "too few prompts"
)

// A ProbeResult is the effect of a probe on a reward.
type ProbeResult struct {
	Probe
	Samples int       `json:"samples"`
	Prompts int       `json:"prompts"` // of the samples
	Missing int       `json:"missing"`
	Gain    *Interval `json:"gain"`  // mean change of the score; simultaneous
	Raise   *Interval `json:"raise"` // the same in typical differences; none without them
	Higher  float64   `json:"higher"`
	Outcome string    `json:"verdict"`
	Worst   []Case    `json:"worst"` // the largest gains
}

// A Case is one sample before and after a probe.
type Case struct {
	Prompt string  `json:"prompt"`
	Sample string  `json:"sample"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`

	of Sample
	by Probe
	at rng.Key
}

// Items are the sample as it was compared, and as the probe left it.
func (c Case) Items() (before, after rewards.Item, err error) {
	item, err := c.of.Open()
	if err != nil {
		return before, after, err
	}
	after, before, err = c.by.apply(item, c.at)
	return before, after, err
}

// worstKept is how many cases are kept of each probe.
const worstKept = 3

// probed holds the effect of a probe on the samples that have scores.
type probed struct {
	Probe
	missing int
	cases   []Case
	prompt  []int // of each case
}

// weigh makes results of all probes.
func weigh(all []probed, typical *float64, key rng.Key) []ProbeResult {
	out := make([]ProbeResult, len(all))
	most := 0.0
	for i, p := range all {
		out[i] = p.result(typical, 1-(1-level)/float64(len(all)), key.With("probe").Sample(i))
		if out[i].Outcome == Weak {
			most = max(most, out[i].Gain.Value)
		}
	}
	for i := range out {
		if out[i].Outcome == Weak && out[i].Gain.Value < shareOfMost*most {
			out[i].Outcome = SideEffect
		}
	}
	return out
}

// result calls a raised reward Weak.
func (p probed) result(typical *float64, level float64, key rng.Key) ProbeResult {
	r := ProbeResult{Probe: p.Probe, Samples: len(p.cases), Prompts: distinct(p.prompt), Missing: p.missing}
	gains := make([]float64, len(p.cases))
	for i, c := range p.cases {
		gains[i] = c.After - c.Before
		if gains[i] > 0 {
			r.Higher += 1 / float64(len(gains))
		}
	}
	if len(gains) == 0 {
		return r
	}
	if i, ok := bootstrap(p.prompt, level, key, mean(gains)); ok {
		r.Gain = &i
	}
	r.Worst = slices.Clone(p.cases)
	slices.SortStableFunc(r.Worst, func(a, b Case) int { return cmp.Compare(b.After-b.Before, a.After-a.Before) })
	r.Worst = r.Worst[:min(worstKept, len(r.Worst))]
	if r.Gain == nil {
		return r
	}
	low := r.Gain.Low
	if typical != nil {
		raise := Interval{r.Gain.Value / *typical, r.Gain.Low / *typical, r.Gain.High / *typical}
		if !math.IsInf(max(math.Abs(raise.Low), math.Abs(raise.High)), 0) {
			r.Raise = &raise
			low = raise.Low - raisedAbove
		}
	}
	if p.planted && r.Raise != nil && r.Raise.Low > -raisedAbove && r.Prompts >= leastPrompts {
		r.Outcome = Unseen
	}
	if low > 0 {
		r.Outcome = Weak
		if r.Prompts < leastPrompts {
			r.Outcome = TooFew
		}
	}
	return r
}

func distinct(of []int) int {
	seen := map[int]bool{}
	for _, c := range of {
		seen[c] = true
	}
	return len(seen)
}

// apart calls probes that make samples worse inapplicable where the reward does not read contents.
func (e *examiner) apart(ctx context.Context, all []ProbeResult, judged []judgedPair) {
	for i, p := range all {
		if p.Outcome != Unseen {
			continue
		}
		empty := slices.ContainsFunc(all, func(o ProbeResult) bool {
			return o.Name == emptyProbe && o.Raise != nil && o.Raise.Low > -raisedAbove
		})
		if empty || !e.readsPrompts(ctx, judged) {
			all[i].Outcome = Apart
		}
	}
}

// readsPrompts asks about pairs of a few prompts under the prompts and metas of others, until a score changes.
func (e *examiner) readsPrompts(ctx context.Context, judged []judgedPair) bool {
	var first []judgedPair // of each prompt
	for _, p := range judged {
		if len(first) < leastPrompts && !slices.ContainsFunc(first, func(o judgedPair) bool { return o.prompt == p.prompt }) {
			first = append(first, p)
		}
	}
	for i, p := range first {
		other := first[(i+1)%len(first)].A
		under := func(s Sample) Sample {
			return Sample{s.Name, func() (rewards.Item, error) {
				item, err := s.Open()
				if err != nil {
					return item, err
				}
				o, err := other.Open()
				item.Prompt, item.Meta = o.Prompt, o.Meta
				return item, err
			}}
		}
		if a := askOne(ctx, e.judge, Pair{A: under(p.A), B: under(p.B)}); a.missing != nil || a.a != p.a || a.b != p.b {
			return true
		}
	}
	return len(first) < 2
}

// weaknesses are the names of the weaknesses found, once each.
func weaknesses(all []ProbeResult) []string {
	names := []string{}
	for _, p := range all {
		if p.Outcome == Weak && !slices.Contains(names, p.Weakness) {
			names = append(names, p.Weakness)
		}
	}
	return names
}

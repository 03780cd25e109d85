package run

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
)

// selection chooses the prompts that an iteration rolls, and its samples that are learned from.
type selection struct {
	e        *experiment.Experiment
	train    []prompts.Prompt
	passing  []int             // the prompts that pass rates leave, of all stages
	pools    map[int]*pool     // by the numbers of stages
	known    prompts.Successes // of the curriculum
	skips    *prompts.Skips    // of GRESO; nil: nothing was learned
	banned   []int             // prompts that the model does well, in their order
	place    int               // in the endless list of prompts, where an iteration may ask for more of it
	buffer   *trainer.Buffer
	guidance *prompts.Guidance // the part of solutions that is given ([episode.guided]); a checkpoint holds it
}

func newSelection(e *experiment.Experiment, train []prompts.Prompt) selection {
	return selection{e: e, train: train, passing: prompts.LessonsOf(train, ""), known: prompts.NewSuccesses(len(train)), buffer: &trainer.Buffer{}}
}

// keys are an iteration's first samples.
func (s *selection) keys(it iteration) []trainer.Key {
	return it.samplesOf(s.prompts(it, 0, it.settings.Rollout.PromptsPerIteration, nil))
}

// prompts are n prompts for a roll of an iteration, which has seen some. Where iterations may roll
// again, the endless list of prompts goes on where the last roll ended.
func (s *selection) prompts(it iteration, roll, n int, seen []int) []int {
	r := it.settings.Rollout
	if it.settings.Supervised() {
		return s.lessons(it, n)
	}
	from := s.pool(it)
	var list []int
	if r.Curriculum == nil && r.Resample == nil && r.Skip == nil && r.Ban == nil {
		return from.iteration(it.number, n)
	}
	out := map[int]bool{}
	for _, p := range slices.Concat(seen, s.banned) {
		out[p] = true
	}
	among := slices.DeleteFunc(slices.Clone(from.places), func(p int) bool { return out[p] })
	if r.Curriculum != nil {
		return r.Curriculum.Draw(it.root.With("curriculum").Iteration(it.number).Attempt(roll), s.known, n, among)
	}
	for len(list) < min(n, len(among)) {
		p := from.at(s.place)
		if s.place++; !out[p] && !slices.Contains(list, p) && !s.skipped(it, p) {
			list = append(list, p)
		}
	}
	return list
}

// lessons are n of the stage's answers in a file, each once in an epoch. They are samples with numbers above the
// prompts': such a stage rolls nothing and asks no reward.
func (s *selection) lessons(it iteration, n int) (list []int) {
	all := prompts.LessonsOf(s.train, it.settings.Rollout.Lessons)
	for _, k := range prompts.Pick(it.root.With("lessons"), it.number, n, len(all)) {
		list = append(list, all[k])
	}
	return list
}

// mostAhead is the number of iterations that are predicted.
const mostAhead = 8

// ahead are prompts of an iteration and of the next ones in its stage, as far as they can be predicted. No draw depends
// on them.
func (s *selection) ahead(it iteration) (all []int) {
	if it.settings.Experiment == nil {
		return nil
	}
	r := it.settings.Rollout
	if r.Resample != nil || r.Curriculum != nil || r.Skip != nil || r.Ban != nil {
		return nil
	}
	last := min(it.number+mostAhead, it.settings.First+it.settings.Run.Iterations-1, s.e.Run.Iterations-1)
	for ; it.number <= last; it.number++ {
		all = append(all, s.prompts(it, 0, r.PromptsPerIteration, nil)...)
	}
	return all
}

// skipped says whether [rollout.skip] leaves out the prompt before the current place.
func (s *selection) skipped(it iteration, p int) bool {
	if it.settings.Rollout.Skip == nil || s.skips == nil {
		return false
	}
	draw := it.root.With("skip").Sample(s.place).Draw()
	return s.skips.Out(p, draw.Float64(), draw.Float64())
}

// choice is the iteration's choice of samples.
func (s *selection) choice(it iteration) trainer.Selection {
	r, a := it.settings.Rollout, it.settings.Advantage
	c := trainer.Selection{Some: comparesSome(it.settings)}
	if e := it.settings.Episode; e != nil && e.Shuffled != nil {
		c.Keep = learnable
	}
	compared := a.Filter != nil && a.Filter.Compared
	if a.Filter != nil && !compared || r.Resample != nil {
		c.Keep = func(samples []trainer.Sample, scores []float64) []bool { return s.keep(it, samples, scores) }
	}
	if r.Resample != nil {
		c.Further = func(r *trainer.Report) []trainer.Key { return s.resample(it, r) }
	}
	if r.More != nil {
		c.Further = func(r *trainer.Report) []trainer.Key { return s.more(it, r) }
	}
	if a.BestOf > 0 {
		c.Best = func(r *trainer.Report, places []int) []int { return s.bestOf(it, a.BestOf, a.BestBy, r, places) }
	}
	if a.Margin > 0 && it.settings.Kind().Has(loss.SamplePairs) {
		c.Best = func(r *trainer.Report, places []int) []int { return apart(a.Margin, r, places) }
	}
	if compared {
		c.Best = s.withSignal(it, c.Best)
	}
	if r.Buffer != nil {
		b := s.buffer
		b.Uniform = func(iteration, n int) []float64 {
			u, draw := make([]float64, n), it.root.With("buffer").Iteration(iteration).Draw()
			for i := range u {
				u[i] = draw.Float64()
			}
			return u
		}
		b.Age, b.Groups = r.Buffer.Iterations, r.Buffer.Groups
		first := s.stageBegan(it.number)
		b.Kept = slices.DeleteFunc(b.Kept, func(g trainer.Group) bool { return g.Iteration() < first }) // other rows
		c.Buffer = b
	}
	return c
}

// comparesSome reports whether the estimator compares some samples of a group alone.
func comparesSome(settings experiment.Settings) bool {
	return settings.Advantage.Keep != nil && settings.Episode != nil
}

// withSignal leaves out the samples of groups without signal after they were compared, and before best chooses.
func (s *selection) withSignal(it iteration, best func(*trainer.Report, []int) []int) func(*trainer.Report, []int) []int {
	return func(r *trainer.Report, places []int) []int {
		signal := make([]bool, len(r.Samples))
		for _, g := range s.signal(it, r.Samples, r.Scores) {
			for _, i := range g {
				signal[i] = true
			}
		}
		places = slices.DeleteFunc(places, func(i int) bool { return !signal[i] })
		if best == nil || len(places) == 0 {
			return places
		}
		return best(r, places)
	}
}

// stageBegan is the first iteration of the stage of an iteration.
func (s *selection) stageBegan(i int) int {
	first := 0
	for n, stage := range s.e.Stages {
		if i < first+stage.Iterations || n == len(s.e.Stages)-1 {
			break
		}
		first += stage.Iterations
	}
	return first
}

// signal are the places of the groups that teach something, in the order of their first sample.
func (s *selection) signal(it iteration, samples []trainer.Sample, scores []float64) [][]int {
	f := advantage.Filter{By: "unequal"}
	if it.settings.Advantage.Filter != nil {
		f = *it.settings.Advantage.Filter
	}
	kept := f.Kept(trainer.GroupNumbers(samples), members(samples, scores), nil)
	return slices.DeleteFunc(trainer.Groups(samples), func(g []int) bool { _, ok := slices.BinarySearch(kept, g[0]); return !ok })
}

// keep is trainer.Selection.Keep: groups with signal, and, where more were rolled than an iteration
// has, the first ones.
func (s *selection) keep(it iteration, samples []trainer.Sample, scores []float64) []bool {
	kept := make([]bool, len(samples))
	all := s.signal(it, samples, scores)
	if it.settings.Rollout.Resample != nil {
		all = all[:min(len(all), it.settings.Rollout.PromptsPerIteration)]
	}
	for _, g := range all {
		for _, i := range g {
			kept[i] = !samples[i].Control
		}
	}
	return kept
}

// resample is trainer.Selection.Further for [rollout.resample]: other prompts in place of groups without signal.
func (s *selection) resample(it iteration, r *trainer.Report) []trainer.Key {
	q := it.settings.Rollout.Resample
	lacking := it.settings.Rollout.PromptsPerIteration - len(s.signal(it, r.Samples, r.Scores))
	if r.Rolls >= q.Rolls || lacking <= 0 {
		return nil
	}
	if q.Prompts > 0 {
		lacking = q.Prompts
	}
	var seen []int
	for _, g := range trainer.Groups(r.Samples) {
		seen = append(seen, r.Samples[g[0]].Key.Prompt)
	}
	return it.samplesOf(s.prompts(it, r.Rolls, lacking, seen))
}

// more is trainer.Selection.Further for [rollout.more]: after the first roll, the samples that prompts which fail lack.
func (s *selection) more(it iteration, r *trainer.Report) (keys []trainer.Key) {
	if r.Rolls > 1 {
		return nil
	}
	m, divided := it.settings.Rollout.More, it.settings.Advantage.Scale != "none"
	for _, g := range trainer.Groups(r.Samples) {
		n := len(g)
		for k := range m.Further(prompts.Rate(trainer.Pick(r.Scores, g), m.Success), n, divided) {
			keys = append(keys, trainer.Key{Iteration: it.number, Prompt: r.Samples[g[0]].Key.Prompt, Sample: n + k})
		}
	}
	return keys
}

// bestOf are n of each group, by their advantages, or where others are drawn by their totals, in the order of samples.
func (s *selection) bestOf(it iteration, n int, by string, r *trainer.Report, places []int) []int {
	var chosen []int
	for _, g := range trainer.Groups(trainer.Pick(r.Samples, places)) {
		inside := trainer.Pick(places, g)
		var kept []int
		switch worth := trainer.Pick(r.Advantages, inside); by {
		case "size":
			kept = advantage.Largest(worth, n)
		case "drawn":
			u, draw := make([]float64, n-1), it.root.With("filtration").Iteration(it.number).Prompt(uint64(r.Samples[inside[0]].Key.Prompt)).Draw()
			for i := range u {
				u[i] = draw.Float64()
			}
			kept = advantage.FirstAndDrawn(u, trainer.Pick(r.Scores, inside), n)
		default:
			kept = advantage.BestOfN(worth, n)
		}
		for _, k := range kept {
			chosen = append(chosen, inside[k])
		}
	}
	slices.Sort(chosen)
	return chosen
}

// apart are the samples of groups whose best and worst totals differ by a margin at least.
func apart(margin float64, r *trainer.Report, places []int) []int {
	pairs := advantage.Pairs(trainer.GroupNumbers(trainer.Pick(r.Samples, places)), trainer.Pick(r.Scores, places), margin)
	return slices.DeleteFunc(slices.Clone(places), func(i int) bool {
		return !slices.ContainsFunc(pairs, func(p [2]int) bool { return r.Samples[places[p[0]]].Key.Prompt == r.Samples[i].Key.Prompt })
	})
}

// learn keeps the scores of an iteration's prompts, for a curriculum, for skipping or for bans.
func (s *selection) learn(it iteration, r *trainer.Report) {
	c, skip, b := it.settings.Rollout.Curriculum, it.settings.Rollout.Skip, it.settings.Rollout.Ban
	if c == nil && skip == nil && b == nil {
		return
	}
	var list []int
	var totals [][]float64
	for _, g := range trainer.Groups(r.Samples) {
		list, totals = append(list, r.Samples[g[0]].Key.Prompt), append(totals, trainer.Pick(r.Scores, g))
	}
	for i, p := range list {
		if b != nil && b.Banned(totals[i]) && s.left(it) > it.settings.Rollout.PromptsPerIteration {
			s.banned = append(s.banned, p)
		}
	}
	if skip != nil {
		if s.skips == nil {
			s.skips = skip.New(len(s.train))
		}
		skip.Learn(s.skips, list, totals)
		return
	}
	if c == nil {
		return
	}
	for i, p := range list {
		c.Learn(s.known, p, totals[i])
	}
}

// describe fills in a line's numbers of the choice.
func (s *selection) describe(it iteration, l *ledger.Line, r *trainer.Report) {
	roll, a := it.settings.Rollout, it.settings.Advantage
	if roll.Resample == nil && roll.More == nil && roll.Buffer == nil && a.Filter == nil && a.BestOf == 0 && a.Margin == 0 && !comparesSome(it.settings) {
		return
	}
	l.Selection = &ledger.SelectionLine{Rolls: r.Rolls, Learned: len(r.Learned), Reused: r.Reused}
	counts := func(i int) bool { return r.Advantages[i] == r.Advantages[i] }
	if a.Filter != nil && a.Filter.Compared {
		counts = func(i int) bool { return slices.Contains(r.Learned, i) }
	}
	for _, g := range trainer.Groups(r.Samples) {
		if slices.ContainsFunc(g, counts) {
			l.Selection.Groups++
		}
	}
}

// giveHints sets the part of solutions that an iteration's samples get ([episode.guided]).
func (s *selection) giveHints(settings *experiment.Settings) {
	if s.e.Episode == nil || s.e.Episode.Guided == nil {
		return
	}
	if s.guidance == nil {
		s.guidance = s.e.Episode.Guided.New()
	}
	settings.Given = s.guidance.Tokens
}

// learnHints adapts that part to the scores of an iteration's samples, guided ones too.
func (s *selection) learnHints(scored *scores) {
	if s.e.Episode == nil || s.e.Episode.Guided == nil || scored == nil {
		return
	}
	s.e.Episode.Guided.Learn(s.guidance, ledger.SpreadOf(scored.numbers(s.e.GuidedBy())).Mean)
}

// why is Trainer.Pass's reason against the samples of an iteration; "": a valid one.
func why(settings experiment.Settings, scores, advantages []float64) string {
	switch {
	case !some(scores, func(float64) bool { return true }):
		return "no sample has a score"
	case settings.NothingTrained() && settings.Rollout.Buffer == nil:
		return "the window is empty"
	case !settings.BySample(), // training does not use advantages of samples
		settings.Rollout.Buffer != nil,                        // which may hold groups with signal
		!some(advantages, func(float64) bool { return true }), // none was compared, and Trainer says why
		some(advantages, func(a float64) bool { return a != 0 }):
		return ""
	}
	return allDead
}

// allDead is the reason against an iteration without signal.
const allDead = "no group can tell its samples apart: every advantage is 0"

// some reports whether any number other than NaN has a property.
func some(x []float64, property func(float64) bool) bool {
	for _, v := range x {
		if !math.IsNaN(v) && property(v) {
			return true
		}
	}
	return false
}

// A checkpoint holds of a selection the place in the list of prompts, the curriculum's successes, and the buffer's
// samples. The numbers of pictures and clips are tensors in float64.
//
// An episode of the buffer is the text that also travels between processes (model.EpisodeCodec), in a tensor of bytes;
// pictures that only a program could draw again are PNG files; the numbers of its tokens are a tensor in float64.

// selectionState is the part in state.json.
type selectionState struct {
	Place int            `json:"place,omitempty"`
	Known []*float64     `json:"known,omitempty"` // null: never rolled
	Skips *prompts.Skips `json:"skips,omitempty"`
	Kept  []groupState   `json:"kept,omitempty"`

	Banned []int `json:"banned,omitempty"`
}

type groupState struct {
	Iteration int           `json:"iteration"`
	Prompt    int           `json:"prompt"`
	Samples   []sampleState `json:"samples"`
}

// sampleState is all of a sample but its numbers.
type sampleState struct {
	Sample  int     `json:"sample"`
	Worth   float64 `json:"worth"`
	Steps   []int   `json:"steps"`
	Trained []bool  `json:"trained"`

	Episode *episodeState `json:"episode,omitempty"` // nil: the sample is a picture, or a clip
}

// state is nil where nothing was selected. says makes texts of episodes; nil: without conversations.
func (c *selection) state(says model.EpisodeCodec) (*selectionState, []safetensors.Tensor, error) {
	s := &selectionState{Place: c.place, Skips: c.skips, Banned: slices.Clone(c.banned)}
	learned := false
	for _, v := range c.known {
		s.Known = append(s.Known, ledger.Number(v))
		learned = learned || !math.IsNaN(v)
	}
	if !learned {
		s.Known = nil
	}
	var tensors []safetensors.Tensor
	for n, g := range c.buffer.Kept {
		one := groupState{Iteration: g.Iteration(), Prompt: g.Samples[0].Key.Prompt}
		for k, sample := range g.Samples {
			kept, its, err := keepSample(keptName(n, k), sample, g.Worth[k], says)
			if err != nil {
				return nil, nil, fmt.Errorf("keeping sample %d of prompt %d for later: %w", sample.Key.Sample, one.Prompt, err)
			}
			one.Samples, tensors = append(one.Samples, kept), append(tensors, its...)
		}
		s.Kept = append(s.Kept, one)
	}
	if s.Place == 0 && s.Known == nil && s.Skips == nil && s.Kept == nil && s.Banned == nil {
		return nil, nil, nil
	}
	return s, tensors, nil
}

// keepSample is a sample's state, and its tensors.
func keepSample(name string, s trainer.Sample, worth float64, says model.EpisodeCodec) (kept sampleState, tensors []safetensors.Tensor, err error) {
	kept = sampleState{Sample: s.Key.Sample, Worth: worth, Steps: s.Decisions.Step, Trained: s.Decisions.Trained}
	if s.Item.Episode == nil {
		return kept, []safetensors.Tensor{wide(name, numbersOf(s))}, nil
	}
	kept.Episode, tensors, err = keepEpisode(name, s, says)
	return kept, tensors, err
}

func keptName(group, sample int) string { return fmt.Sprintf("kept.%d.%d", group, sample) }

// load is the way back.
func (c *selection) load(s *selectionState, f *safetensors.File, reads model.EpisodeCodec) error {
	c.place, c.skips, c.banned, c.buffer.Kept, c.known = 0, nil, nil, nil, prompts.NewSuccesses(len(c.known))
	if s == nil {
		return nil
	}
	if s.Known != nil && len(s.Known) != len(c.known) {
		return fmt.Errorf("successes of %d prompts, and there are %d", len(s.Known), len(c.known))
	}
	if s.Skips != nil && len(s.Skips.Solved) != len(c.known) {
		return fmt.Errorf("visits of %d prompts, and there are %d", len(s.Skips.Solved), len(c.known))
	}
	c.place, c.skips, c.banned = s.Place, s.Skips, slices.Clone(s.Banned)
	for i, v := range s.Known {
		if v != nil {
			c.known[i] = *v
		}
	}
	for n, g := range s.Kept {
		var group trainer.Group
		for k, one := range g.Samples {
			key := trainer.Key{Iteration: g.Iteration, Prompt: g.Prompt, Sample: one.Sample}
			sample, err := one.restored(keptName(n, k), key, f, reads)
			if err != nil {
				return fmt.Errorf("%s: %w", keptName(n, k), err)
			}
			group.Samples, group.Worth = append(group.Samples, sample), append(group.Worth, one.Worth)
		}
		if len(group.Samples) == 0 {
			return errors.New("a kept group without samples")
		}
		c.buffer.Kept = append(c.buffer.Kept, group)
	}
	return nil
}

// restored is a sample with its key.
func (s sampleState) restored(name string, key trainer.Key, f *safetensors.File, reads model.EpisodeCodec) (trainer.Sample, error) {
	if s.Episode != nil {
		return s.episode(name, key, f, reads)
	}
	tensor, err := f.Tensor(name)
	if err != nil {
		return trainer.Sample{}, err
	}
	out, err := s.sample(tensor)
	out.Key = key
	return out, err
}

// numbersOf are a sample's: its last state, then of every decision the time and the log-probability,
// and the state, the choice and the mean.
func numbersOf(s trainer.Sample) []float64 {
	d := s.Decisions
	all := append([]float64{}, s.Item.Final...)
	for k := range d.Step {
		all = append(append(append(append(all, d.Time[k], d.LogProb[k]), d.State[k]...), d.Action[k]...), d.Mean[k]...)
	}
	return all
}

// sample takes the numbers apart again.
func (s sampleState) sample(t safetensors.Tensor) (trainer.Sample, error) {
	var out trainer.Sample
	n := len(s.Steps)
	total := t.Len()
	size := (total - 2*n) / (1 + 3*n)
	if t.DType != safetensors.F64 || len(s.Trained) != n || size < 1 || size+n*(2+3*size) != total {
		return out, fmt.Errorf("%d numbers are not those of %d decisions", total, n)
	}
	at := 0
	take := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*(at+i):]))
		}
		at += n
		return x
	}
	out.Item.Final = take(size)
	d := &out.Decisions
	d.Step, d.Trained = s.Steps, s.Trained
	for range n {
		two := take(2)
		d.Time, d.LogProb = append(d.Time, two[0]), append(d.LogProb, two[1])
		d.State, d.Action, d.Mean = append(d.State, take(size)), append(d.Action, take(size)), append(d.Mean, take(size))
	}
	return out, nil
}

// wide is a tensor in float64.
func wide(name string, x []float64) safetensors.Tensor {
	data := make([]byte, 0, 8*len(x))
	for _, v := range x {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
	}
	return safetensors.Tensor{Name: name, DType: safetensors.F64, Shape: []int{len(x)}, Data: data}
}

// episodeState is the part of an episode in state.json.
type episodeState struct {
	Pictures  int  `json:"pictures,omitempty"`
	Advantage bool `json:"advantage,omitempty"` // its tokens have advantages of their own
	Values    bool `json:"values,omitempty"`    // and values of a value head, and returns
	Masked    bool `json:"masked,omitempty"`    // and log-probabilities behind masked pictures
}

// lists are the numbers of an episode's tokens, as they are stored one behind another.
func (e episodeState) lists(d *trainer.Decisions) []*[]float64 {
	all := []*[]float64{&d.LogProb}
	if e.Advantage {
		all = append(all, &d.Advantage)
	}
	if e.Values {
		all = append(all, &d.Value, &d.Return)
	}
	if e.Masked {
		all = append(all, &d.Masked)
	}
	return all
}

// keepEpisode is an episode's state, and its tensors.
func keepEpisode(name string, s trainer.Sample, says model.EpisodeCodec) (*episodeState, []safetensors.Tensor, error) {
	if says == nil {
		return nil, nil, errors.New("the model makes no text of its episodes, which rollout.buffer keeps")
	}
	said, err := says.Encode(s)
	if err != nil {
		return nil, nil, err
	}
	d := s.Decisions
	e := &episodeState{Pictures: len(said.Pictures), Advantage: d.Advantage != nil, Values: d.Value != nil, Masked: d.Masked != nil}
	var numbers []float64
	for _, list := range e.lists(&d) {
		numbers = append(numbers, *list...)
	}
	all := []safetensors.Tensor{wide(name, numbers), raw(saidName(name), said.Text)}
	for i, m := range said.Pictures {
		var file bytes.Buffer
		if err := vision.EncodePNG(&file, m); err != nil {
			return nil, nil, err
		}
		all = append(all, raw(pictureName(name, i), file.Bytes()))
	}
	return e, all, nil
}

// episode is the way back: a sample whose key is known.
func (s sampleState) episode(name string, key trainer.Key, f *safetensors.File, reads model.EpisodeCodec) (out trainer.Sample, err error) {
	if reads == nil {
		return out, errors.New("the checkpoint keeps an episode, and the model has none")
	}
	numbers, err := f.Tensor(name)
	if err != nil {
		return out, err
	}
	d := trainer.Decisions{Step: s.Steps, Trained: s.Trained}
	lists, n := s.Episode.lists(&d), len(s.Steps)
	if numbers.DType != safetensors.F64 || numbers.Len() != n*len(lists) || len(s.Trained) != n {
		return out, fmt.Errorf("%d numbers are not those of %d tokens", numbers.Len(), n)
	}
	for i, list := range lists {
		for k := range n {
			*list = append(*list, math.Float64frombits(binary.LittleEndian.Uint64(numbers.Data[8*(i*n+k):])))
		}
	}
	text, err := f.Tensor(saidName(name))
	if err != nil {
		return out, err
	}
	said := model.EncodedEpisode{Text: bytes.Clone(text.Data)}
	for i := range s.Episode.Pictures {
		file, err := f.Tensor(pictureName(name, i))
		if err != nil {
			return out, err
		}
		m, err := vision.Decode(file.Data, vision.Limits{})
		if err != nil {
			return out, fmt.Errorf("%s: %w", pictureName(name, i), err)
		}
		said.Pictures = append(said.Pictures, m)
	}
	one := []trainer.Sample{{Key: key, Decisions: d}}
	err = reads.Decode(one, []model.EncodedEpisode{said})
	return one[0], err
}

func saidName(name string) string            { return name + ".said" }
func pictureName(name string, at int) string { return fmt.Sprintf("%s.picture.%d", name, at) }
func raw(name string, b []byte) safetensors.Tensor {
	return safetensors.Tensor{Name: name, DType: safetensors.U8, Shape: []int{len(b)}, Data: b}
}

package conversations

import (
	"errors"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Card: a run's memory, by an iteration on an empty backend that counts, in the code that will run. How long episodes
// get is not known before, so the longest possible one counts. Its prompt is the longest of some from the list, each
// turn is as long as it may be, and an observation between two turns shows a picture that takes as many places as the
// prompt's largest. episode.tokens and episode.pictures bound all that.
//
// Invariant (tests): the peak is that of a run whose episodes are as long, within 15 %.

// maxPromptsRead is how many prompts of a list are looked at.
const maxPromptsRead = 16

// aroundPicture are the words of an observation beside its picture.
const aroundPicture = 24

// memoryCounter is a model on a backend that counts.
type memoryCounter struct {
	*Model
	settings experiment.Settings
	dry      model.Dry
	need     model.Memory

	prompt *rollout.EpisodeSampler // the longest
	turns  int                     // of the longest episode
	seen   []*vision.Image
	reads  vlm.Stretch // the observation between two turns
}

// predictMemory is Modality's Memory. No pass is made smaller to keep to a budget; frozen matrices may lie elsewhere.
func predictMemory(e *experiment.Experiment, dry model.Dry, budget int64) (*model.Memory, error) {
	list, err := trainingList(e)
	if err != nil {
		return nil, err
	}
	dry.Apart(model.Apart(e))
	return model.AtStates(e, budget, func(states nn.Home) (*model.Memory, error) {
		return model.AtHome(e, budget, func(home nn.Home) (*model.Memory, error) {
			dry.ResetPeak()
			stock := nn.DryStock(dry, len(e.Run.Devices()), model.Apart(e))
			at := model.Place{States: model.DryStates(states, len(e.Run.Devices()), dry)}
			need, err := memoryAt(e, model.Options{Train: list, Backend: dry, Fit: model.Fit{Home: home}, Stock: stock, Place: at}, dry)
			if err == nil {
				need.HostStates = at.States.HostBytes()
			}
			return need, err
		})
	})
}

// memoryAt predicts for matrices in one home.
func memoryAt(e *experiment.Experiment, o model.Options, dry model.Dry) (need *model.Memory, err error) {
	m, err := OpenModel(e, o)
	if err != nil {
		return nil, err
	}
	pool := m.VLM.Options.Pool
	defer func() {
		err = errors.Join(err, m.Close())
		pool.Trim() // another prediction may follow on this backend
	}()
	c := &memoryCounter{Model: m, dry: dry, need: model.Memory{Own: ownBytes, Fit: o.Fit}}
	c.need.Apart, c.need.Home = model.Apart(e), o.Stock.Home(o.HomeOf(e))
	if c.need.Home == nn.Host {
		c.need.Host = int64(o.Stock.Bytes())
	}
	for i, first := 0, 0; i == 0 || i < len(e.Stages); i++ {
		if c.settings, err = e.Iteration(first); err != nil {
			return nil, err
		}
		if err := c.iterate(); err != nil {
			return nil, err
		}
		if len(e.Stages) > 0 {
			first += e.Stages[i].Iterations
		}
	}
	return &c.need, nil
}

// phase ends one: its peak.
func (c *memoryCounter) phase(into *int64) {
	*into = max(*into, int64(c.dry.Peak()))
	c.dry.ResetPeak()
}

// iterate makes the first iteration of a stage.
func (c *memoryCounter) iterate() error {
	if err := c.dry.Over(); err != nil {
		return err
	}
	if err := c.Begin(c.settings, rng.New(uint64(c.opened.Run.Seed)), 1); err != nil {
		return err
	}
	c.VLM.Options.Pool.Trim()
	c.dry.ResetPeak()
	var of trainer.Sample
	var err error
	if c.settings.Supervised() {
		of, err = c.lesson()
	} else if err = c.look(); err == nil {
		if c.Engine == nil {
			err = c.roll()
		}
		c.phase(&c.need.Sampling)
		of = c.longest()
	}
	if err != nil {
		return err
	}
	c.count(rollout.EpisodeOf(of))
	return c.learn(of)
}

// samples are those of an iteration.
func (c *memoryCounter) samples() int {
	return c.settings.Rollout.PromptsPerIteration * c.settings.Rollout.Group
}

// lesson is the longest of some lessons.
func (c *memoryCounter) lesson() (most trainer.Sample, err error) {
	for i, n := range prompts.LessonsOf(c.train, c.settings.Rollout.Lessons) {
		if i == maxPromptsRead {
			break
		}
		all, err := c.Roll(trainer.Current, []trainer.Key{{Prompt: n}})
		if err != nil {
			return most, err
		}
		if rollout.EpisodeOf(most) == nil || len(rollout.EpisodeOf(all[0]).Tokens) > len(rollout.EpisodeOf(most).Tokens) {
			most = all[0]
		}
	}
	if rollout.EpisodeOf(most) == nil {
		return most, errors.New("there are no lessons to count by")
	}
	return most, nil
}

// look finds the longest of some prompts, and the size of an observation of its picture.
func (c *memoryCounter) look() error {
	c.prompt, c.seen = nil, nil
	all := prompts.LessonsOf(c.train, "")
	for i := range min(len(all), maxPromptsRead) {
		v, err := c.Start(trainer.Key{Prompt: all[i*len(all)/min(len(all), maxPromptsRead)]})
		if err != nil {
			return fmt.Errorf("prompt %d: %w", i, err)
		}
		if c.prompt == nil || v.Length > c.prompt.Length {
			c.prompt = v
		}
	}
	if c.prompt == nil {
		return errors.New("there are no prompts to count by")
	}
	if c.prompt.Lost != nil {
		return c.prompt.Lost
	}
	var largest *vision.Image
	for _, p := range c.prompt.Album.Pictures {
		if largest == nil || p.ShownWidth*p.ShownHeight > largest.Width*largest.Height {
			largest = vision.New(p.ShownWidth, p.ShownHeight)
		}
	}
	text := strings.Repeat(" a", aroundPicture)
	if largest != nil {
		text, c.seen = tools.VisionPad+text, []*vision.Image{largest}
	}
	var err error
	if c.reads, _, err = c.VLM.Read(text, c.seen...); err != nil {
		return err
	}
	l := c.Limits
	if c.turns = max(1, l.Turns); l.Turns == 0 {
		c.turns = 1 << 20
	}
	if l.Pictures > 0 && len(c.seen) > 0 {
		c.turns = min(c.turns, 1+max(0, l.Pictures-len(c.prompt.Album.Pictures)))
	}
	return nil
}

// turnTokens are those of one answer at most.
func (c *memoryCounter) turnTokens() int {
	if c.TurnTokens == 0 {
		return rollout.DefaultTurnTokens
	}
	return c.TurnTokens
}

// length is the longest episode's, and how many turns it has.
func (c *memoryCounter) length() (tokens, turns int) {
	tokens = c.prompt.Length
	for {
		tokens, turns = tokens+c.turnTokens(), turns+1
		full := c.Limits.Tokens > 0 && tokens >= c.Limits.Tokens
		if full {
			return c.Limits.Tokens, turns
		}
		if turns >= c.turns || c.Limits.Tokens == 0 && tokens > 1<<20 {
			return tokens, turns
		}
		tokens += len(c.reads.IDs)
	}
}

// roll reads the prompt into as many rows as are under way, observations behind all of them, and fills one to the
// longest episode: rows have one length of memory.
func (c *memoryCounter) roll() error {
	tokens, turns := c.length()
	rows := min(c.AtOnce()+c.Spare, c.samples())
	d := c.VLM.Model.NewDecoder(c.VLM.Options.Pool, c.VLM.Arithmetic(false), 1+rows)
	defer d.Close()
	if _, err := d.Extend(0, c.prompt.Unread); err != nil {
		return err
	}
	var all []int
	for r := 1; r <= rows; r++ {
		d.Copy(r, 0)
		all = append(all, r)
	}
	observe := func(rows []int) error {
		n := min(len(rows), max(1, rollout.DefaultPrefill/max(1, len(c.reads.IDs))))
		reads := make([]vlm.Stretch, n)
		for i := range reads {
			reads[i] = c.reads
		}
		if turns < 2 || n == 0 {
			return nil
		}
		_, err := d.ExtendAll(rows[:n], reads)
		return err
	}
	if err := observe(all); err != nil {
		return err
	}
	for step := max(kernels.KeyBlock, tokens/256); d.Len(1) < tokens-1; {
		if _, err := d.Extend(1, vlm.Stretch{IDs: make([]int32, min(step, tokens-1-d.Len(1)))}); err != nil {
			return err
		}
	}
	if _, err := d.Step(all, make([]int32, len(all))); err != nil {
		return err
	}
	d.Clear(0) // the next prompt is read, and others still observe
	if _, err := d.Extend(0, c.prompt.Unread); err != nil {
		return err
	}
	for _, r := range all {
		d.Copy(r, 0)
	}
	return observe(all)
}

// longest is the longest episode, as it is learned from: nobody has said a word of it.
func (c *memoryCounter) longest() trainer.Sample {
	tokens, _ := c.length()
	t := &tools.Transcript{Tokens: append([]int32(nil), c.prompt.Prompt.Tokens...), Prompt: c.prompt.Length}
	album := &tools.Album{Pictures: append([]tools.Picture(nil), c.prompt.Album.Pictures...)}
	t.Sampled = make([]bool, len(t.Tokens))
	say := func(ids []int32, drawn bool) {
		for _, id := range ids[:min(len(ids), tokens-len(t.Tokens))] {
			t.Tokens, t.Sampled = append(t.Tokens, id), append(t.Sampled, drawn)
		}
	}
	for len(t.Tokens) < tokens {
		say(make([]int32, c.turnTokens()), true)
		if len(t.Tokens)+len(c.reads.IDs) >= tokens {
			say(make([]int32, tokens), true)
			break
		}
		say(c.reads.IDs, false)
		for _, m := range c.seen {
			album.Add(m, &tools.Op{Kind: "crop"})
		}
	}
	t.LogProb, t.ModelLogProb = make([]float64, len(t.Tokens)), make([]float64, len(t.Tokens))
	return trainer.Sample{Item: trainer.Item{Episode: &rollout.Episode{Transcript: t, Album: album, Videos: c.prompt.Videos}}}
}

// count counts the tokens that go through the network, and the host's memory of samples.
func (c *memoryCounter) count(e *rollout.Episode) {
	o, samples := c.settings.Experiment, c.samples()
	n := model.Tokens{Prompt: e.Prompt, Episode: len(e.Tokens)}
	c.need.Rows = model.Rows{Sampling: min(c.AtOnce(), samples), Training: len(e.Tokens)}
	drawn := 0
	for _, on := range e.Sampled {
		if on {
			drawn++
		}
	}
	n.Drawn = drawn
	if !c.settings.Supervised() && c.Engine == nil { // a prompt is read once for its group
		n.Generated = int64(c.settings.Rollout.PromptsPerIteration)*int64(n.Prompt) + int64(samples)*int64(n.Episode-n.Prompt)
	}
	whole := int64(samples) * int64(n.Episode)
	n.Forward, n.Backward = whole, whole
	if o.Loss.KL.Weight > 0 || c.settings.Kind().Has(loss.Reference) {
		n.Forward += whole
	}
	if hasCritic(c.opened) || c.Engine != nil {
		n.Forward += whole
	}
	if k := c.need.Tokens; k == nil || n.Generated+n.Forward > k.Generated+k.Forward {
		c.need.Tokens = &n
	}
	var pixels, patches int64
	for i, p := range e.Album.Pictures {
		one := int64(3 * p.Width * p.Height)
		if i >= len(c.given(e)) {
			one *= int64(samples) // a tool's are an episode's own
		} else {
			one *= int64(c.settings.Rollout.PromptsPerIteration)
		}
		pixels += one
		patches += int64(3*4) * int64(p.ShownWidth*p.ShownHeight) * int64(c.VLM.Processor.Frames)
	}
	logits := int64(min(c.AtOnce(), samples)) * int64(c.VLM.Model.Text.Vocabulary) * (4 + 8 + 8)
	c.need.Samples = max(c.need.Samples, pixels+whole*bytesOfToken+2*patches+logits)
}

// ownBytes is the program's memory beside the model and its episodes, measured: less than of pictures, which are
// decoded, judged and drawn.
const ownBytes = 84 << 20

// bytesOfToken is the memory of a transcript's slices for one token, and of a loss.
const bytesOfToken = 4 + 1 + 3*8 + 8*8

// given are the pictures of an episode's prompt.
func (c *memoryCounter) given(e *rollout.Episode) (all []tools.Picture) {
	for _, p := range e.Album.Pictures {
		if p.Given() {
			all = append(all, p)
		}
	}
	return all
}

// learn goes forward and backward through as many episodes as an update has, and takes a step, twice: the second begins
// beside the optimiser's state.
func (c *memoryCounter) learn(of trainer.Sample) error {
	l := c.settings.Experiment.Loss
	n := (c.samples() + c.settings.Experiment.Optim.Updates - 1) / c.settings.Experiment.Optim.Updates
	n = min(n, 2+rollout.DefaultKeep/max(1, len(rollout.EpisodeOf(of).Tokens)))
	points := make([]trainer.Point, n)
	for i := range points {
		points[i] = trainer.Point{Episode: of.Item.Episode, Entropy: l.EntropyWeight != 0 || l.Keep.Entropy > 0 && l.Keep.Entropy < 1, Value: c.ValueLearner() != nil}
	}
	for range 2 {
		model.HoldShards(c.settings.Experiment.Run, c.Moved())
		forward, err := c.Eval(trainer.Current, points)
		if err != nil {
			return err
		}
		if err := forward.Back(forward.Outputs); err != nil {
			return err
		}
		c.Params().Move(1, 0)
	}
	c.phase(&c.need.Training)
	c.need.Gradient = model.GradientBytes(c.Moved())
	return nil
}

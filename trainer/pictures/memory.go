package pictures

import (
	"context"
	"errors"
	"slices"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Memory predicts a run's memory by making an iteration of it on an empty backend that counts, in the code that will
// run: no weight is read, and of an iteration's samples as many are made as go through a network at once. Where a
// budget is given, fewer go through it, and then backward computes again activations that passes would have kept,
// until all fits or nothing more can be done; then frozen matrices lie elsewhere.
func Memory(e *experiment.Experiment, dry model.Dry, budget int64) (*model.Memory, error) {
	o, err := lists(e)
	if err != nil {
		return nil, err
	}
	o.Backend = dry
	dry.Apart(model.Apart(e))
	if n := e.Run.TokenShares(); n > 1 {
		o.Tokens = &autograd.Tokens{Ranks: n}
	}
	return model.AtStates(e, budget, func(states nn.Home) (*model.Memory, error) {
		return model.AtHome(e, budget, func(home nn.Home) (*model.Memory, error) {
			o := o
			o.States = model.DryStates(states, max(len(e.Run.Devices()), e.Run.TokenShares()), dry)
			o.Home, o.Stock = home, nn.DryStock(dry, len(e.Run.Devices()), model.Apart(e))
			dry.ResetPeak()
			need, err := memoryAt(e, o, dry, budget)
			if err == nil {
				need.HostStates = o.States.HostBytes()
			}
			return need, err
		})
	})
}

// memoryAt is Memory with matrices in one home.
func memoryAt(e *experiment.Experiment, o model.Options, dry model.Dry, budget int64) (need *model.Memory, err error) {
	if err := dry.Over(); err != nil {
		return nil, err
	}
	m, err := Open(e, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, m.Close())
		m.Pipeline.Pool.Trim() // another prediction may follow on this backend
	}()
	c := counting{Model: m, e: e, dry: dry}
	c.need.Apart, c.need.EncoderBytes = model.Apart(e), m.Pipeline.EncoderBytes()
	text, err := c.encode()
	if err != nil {
		return nil, err
	}
	firsts, err := c.turns(text)
	if err != nil {
		return nil, err
	}
	for _, fit := range c.fits() {
		m.Micro, m.Checkpointing, m.Pipeline.Memory.Lean, m.Pipeline.Memory.Aside = fit.Micro, fit.Checkpointing, fit.Lean, fit.Aside
		c.need = model.Memory{Fit: fit, Texts: c.need.Texts, Samples: c.need.Samples, Apart: c.need.Apart, EncoderBytes: c.need.EncoderBytes, Host: c.need.Host}
		c.need.Encoders = c.encoders()
		if fit.Checkpointing == autograd.AllBlocks {
			if err := c.again(); err != nil {
				return nil, err
			}
		}
		if err := c.iterations(firsts); err != nil {
			return nil, err
		}
		if o.Stock.Home(o.HomeOf(e)) == nn.Host {
			c.need.Host = int64(o.Stock.Bytes())
		}
		c.need.Inputs = int64(m.Pipeline.AsideBytes())
		n := min(c.share(c.samples()), c.perPass(&c.Form)) * c.At.Tokens
		c.need.Rows = model.Rows{Sampling: n, Training: c.together() * c.At.Tokens}
		if c.need.Within(budget, 1) {
			if err := c.waiting(firsts); err != nil {
				return nil, err
			}
			if c.need.Within(budget, 1) {
				break
			}
		}
	}
	if c.need.Waiting == 0 { // nothing fits
		if err := c.waiting(firsts); err != nil {
			return nil, err
		}
	}
	if err := c.keep(firsts, budget); err != nil {
		return nil, err
	}
	c.need.Home = o.Stock.Home(o.HomeOf(e))
	return &c.need, nil
}

// keep lets text encoders stay beside the network where memory known to be free leaves them room.
func (c *counting) keep(firsts []experiment.Settings, budget int64) error {
	freed := c.need
	if budget == 0 || c.encoders() != "freed" || !freed.Within(budget, 1) {
		return nil
	}
	c.Pipeline.Memory.KeepEncoders = true
	c.need.KeepEncoders, c.need.Encoders = true, c.encoders()
	c.need.Sampling, c.need.Decoding, c.need.Check, c.need.Training = 0, 0, 0, 0
	if err := c.again(); err != nil {
		return err
	}
	if err := c.iterations(firsts); err != nil {
		return err
	}
	if err := c.waiting(firsts); err != nil {
		return err
	}
	if !c.need.Within(budget, 1) {
		c.need = freed
	}
	return nil
}

// lists are the prompts that an experiment names.
func lists(e *experiment.Experiment) (o model.Options, err error) {
	if o.Train, err = readPrompts(e); err != nil {
		return o, err
	}
	if e.Evaluate.Prompts != "" {
		if o.HeldOut, err = e.Open(e.Evaluate.Prompts); err != nil {
			return o, err
		}
	}
	if len(o.Train) == 0 {
		return o, errors.New("there are no prompts to count by")
	}
	return o, nil
}

// counting is a model on a backend that counts.
type counting struct {
	*Model
	e        *experiment.Experiment
	settings experiment.Settings
	dry      model.Dry
	need     model.Memory
	most     int // samples that go through the network at once where nothing bounds them
	// waits says that memory of one phase waits for the next, as it does in pools of a small model.
	waits bool
}

// phase ends one: its peak.
func (c *counting) phase(into *int64) {
	*into = max(*into, int64(c.dry.Peak()))
	c.dry.ResetPeak()
}

// part parts phases: nothing of those before waits, unless that is counted.
func (c *counting) part() {
	if !c.waits {
		c.Pipeline.Pool.Trim()
	}
	c.dry.ResetPeak()
}

// encode reads a prompt beside the network, as when it is drawn, and says how large its text is.
func (c *counting) encode() (int64, error) {
	abouts, err := c.abouts([]int{0}, "")
	if err != nil {
		return 0, err
	}
	first, err := c.Pipeline.EncodeUntil(context.Background(), abouts...)
	if err != nil {
		return 0, err
	}
	c.phase(&c.need.Texts)
	return first[0].Bytes(), nil
}

// iterations make the first iteration of each stage. Of a large model on the host they make it again with a pool that
// gives back waiting memory before it asks for more, as the run will: the peak of lent memory is enough then.
func (c *counting) iterations(firsts []experiment.Settings) error {
	pool := c.Pipeline.Pool
	pool.Limit = 0
	for _, settings := range firsts {
		if err := c.iterate(settings); err != nil {
			return err
		}
	}
	if !c.need.IsLarge() || c.need.Apart {
		return nil
	}
	pool.Trim()
	pool.Limit = 1 // nothing waits while more is asked for
	c.need.Sampling, c.need.Decoding, c.need.Check, c.need.Training = 0, 0, 0, 0
	for _, settings := range firsts {
		if err := c.iterate(settings); err != nil {
			return err
		}
	}
	return nil
}

// waiting counts a small model's memory from the start of its run on: that of one phase waits for the next, and that of
// loading, too.
func (c *counting) waiting(firsts []experiment.Settings) (err error) {
	if c.need.IsLarge() {
		return nil
	}
	o := c.asked
	o.Fit = c.need.Fit
	c.dry.ResetPeak()
	others := int64(c.dry.Peak())
	m, err := Open(c.e, o)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, m.Close())
		m.opened.Pool.Trim()
	}()
	m.Pipeline.Memory = c.Pipeline.Memory
	run := counting{Model: m, e: c.e, dry: c.dry, waits: true}
	if err := run.begin(firsts[0]); err != nil {
		return err
	}
	if _, err := run.encode(); err != nil {
		return err
	}
	if err := run.evaluation(); err != nil {
		return err
	}
	for _, settings := range slices.Repeat(firsts, min(2, c.e.Run.Iterations)) {
		if err := run.iterate(settings); err != nil {
			return err
		}
	}
	c.need.Waiting = max(run.need.Texts, run.need.Sampling, run.need.Decoding, run.need.Check, run.need.Training) - others
	return nil
}

// again counts texts anew where encoders are lent or kept.
func (c *counting) again() error {
	c.Pipeline.Memory.LendEncoders = !c.Pipeline.Memory.KeepEncoders
	c.Pipeline.Forget()
	if err := c.Pipeline.FreeEncoders(); err != nil { // and the remains of other fits
		return err
	}
	c.dry.ResetPeak()
	c.need.Texts = 0
	_, err := c.encode()
	return err
}

// encoders names the treatment of text encoders between two iterations that meet new prompts.
func (c *counting) encoders() string {
	switch {
	case c.Pipeline.Memory.KeepEncoders:
		return "kept"
	case c.Pipeline.Memory.LendEncoders:
		return "lent"
	}
	return "freed"
}

// turns are the first iterations of stages, without those that are like an earlier one.
func (c *counting) turns(text int64) (all []experiment.Settings, err error) {
	type asked struct {
		width, height, frames, samples int
		noised                         bool
	}
	seen := map[asked]bool{}
	for i, first := 0, 0; i == 0 || i < len(c.e.Stages); i++ {
		settings, err := c.e.Iteration(first)
		if err != nil {
			return nil, err
		}
		if err := c.begin(settings); err != nil {
			return nil, err
		}
		if one := (asked{c.At.Width, c.At.Height, c.At.Frames, c.samples(), settings.Noised()}); !seen[one] {
			seen[one], all = true, append(all, settings)
		}
		c.most = max(c.most, c.together())
		c.need.Samples = max(c.need.Samples, c.host(text), c.evaluated())
		if len(c.e.Stages) > 0 {
			first += c.e.Stages[i].Iterations
		}
	}
	return all, nil
}

// begin prepares the largest pictures of an iteration.
func (c *counting) begin(settings experiment.Settings) error {
	c.settings = settings
	if err := c.follow(c.Policy, c.settings, rng.New(uint64(c.e.Run.Seed)), false); err != nil {
		return err
	}
	largest, err := c.largest(c.settings)
	if err != nil {
		return err
	}
	c.Policy.Form, c.Forms, c.Trained = *largest, nil, c.settings.Trained
	return nil
}

// samples are those of an iteration.
func (c *counting) samples() int {
	group := c.settings.Rollout.Group
	if m := c.settings.Rollout.More; m != nil {
		group = max(group, m.Most)
	}
	return c.settings.Rollout.PromptsPerIteration * group
}

// share is the most of n samples that one rank has.
func (c *counting) share(n int) int {
	if c.e.Run.TokenShares() > 1 {
		return n
	}
	return model.ShareOf(c.e.Run, n, c.Moved())
}

// fits are ways to keep to a memory, the fastest first: without packed copies of trained parameters, where those are
// the network's own matrices; half as many samples at once each time; and at last checkpointing, of more and more
// blocks, and on a card with the inputs of blocks on the host.
//
// Of matrices that lie elsewhere each pass fetches all: passes of as many samples as there are serve them best, so that
// backward computes again before a pass becomes smaller.
func (c *counting) fits() (all []model.Fit) {
	all = []model.Fit{{}}
	lean := len(c.opened.Train) > 0
	defer func() {
		if most := all[len(all)-1]; c.need.Apart && most.Checkpointing == autograd.AllBlocks {
			most.Aside = true
			all = append(all, most)
		}
		for i := range all {
			all[i].Home = c.opened.Memory.Home
		}
	}()
	if c.opened.Memory.Home != nn.Device {
		all[0].Lean = lean
		for n := c.most; n >= 1; n /= 2 {
			all = append(all, model.Fit{Lean: lean, Micro: n, Checkpointing: autograd.AllBlocks})
		}
		return all
	}
	if lean {
		all = append(all, model.Fit{Lean: true})
	}
	for n := c.most / 2; n >= 1; n /= 2 {
		all = append(all, model.Fit{Lean: lean, Micro: n})
	}
	for n := range autograd.AllBlocks {
		all = append(all, model.Fit{Lean: lean, Micro: 1, Checkpointing: n + 1})
	}
	return all
}

// host is the memory of an iteration's samples beside the backend, as much again with it: Go's collector lets garbage
// grow up to the live memory. Of a judged step before, after, their mean and the output, in float64; a picture in
// bytes, and of as many as are decoded or judged at once in fp32 twice. A sample that was rolled has its states under
// way, one that is learned from offline its latents alone; those that are noised have theirs at some times. Of texts
// as many are remembered as have room.
func (c *counting) host(text int64) int64 {
	texts := min(int64(c.asked.Len()), max(int64(c.settings.Rollout.PromptsPerIteration), mostRemembered/max(1, text))) * text
	states, n, pixels := 4*len(c.settings.Trained)+6, c.samples(), int64(3*c.At.Pixels())
	if c.settings.Rollout.Offline {
		states = 2
	}
	each, times := c.noised(n)
	held, state := max(states*n, n+each*n), int64(8*c.At.Len())
	raw := min(n, portion(c.At))
	return 2*c.listed() + texts + 2*(state*int64(held)+int64(n)*pixels+int64(raw)*8*pixels) + state*int64(each*n*(times-1))
}

// evaluated is the memory of an evaluation's samples beside the backend, as much again with it, as host counts: their
// latents in float64 and pictures, of as many as are evaluated at once, and of one group more.
func (c *counting) evaluated() int64 {
	each, group := int64(8*c.At.Len()+3*c.At.Pixels()), c.e.Evaluate.Samples
	all := int64(len(c.asked.HeldOut)*group) * each
	return 2*c.listed() + 2*min(all, model.EvaluatedBytes+int64(group+c.perPass(&c.Form))*each)
}

// evaluation makes held-out samples, as a run does before its first iteration: of each size of passes one.
func (c *counting) evaluation() error {
	all := c.share(len(c.asked.HeldOut) * c.e.Evaluate.Samples)
	if all == 0 {
		return nil
	}
	settings, err := c.e.Evaluating(c.e.Sampler)
	if err != nil {
		return err
	}
	p := c.Fixed(context.Background(), settings, rng.New(uint64(c.e.Evaluate.Seed)))
	keys := make([]trainer.Key, min(all, c.perPass(&c.Form)+all%c.perPass(&c.Form)))
	for i := range keys {
		keys[i] = trainer.Key{Prompt: len(c.asked.Train) + i/c.e.Evaluate.Samples, Sample: i % c.e.Evaluate.Samples}
	}
	samples, err := p.Roll(trainer.Current, keys)
	if err != nil {
		return err
	}
	c.phase(&c.need.Sampling)
	if _, err := c.Items(samples); err != nil {
		return err
	}
	c.phase(&c.need.Decoding)
	return nil
}

// noised is how many states an objective holds that noises n samples, of each at a time, and at how many times at
// once: the noise, the network's input and output, its target, the gradient and two that the loss makes of it; and
// other weights' outputs. The memory of further times lives for a moment, and no garbage of its size is left.
func (c *counting) noised(n int) (each, times int) {
	kind, l := c.settings.Kind(), c.settings.Loss
	if kind.Noised == nil {
		return 0, 1
	}
	each = 7
	for _, asked := range []bool{kind.Has(loss.OldWeights), kind.Has(loss.Reference) || kind.Has(loss.ReferenceIfWeighted) && l.KL.Weight > 0, kind.Has(loss.AverageIfWeighted) && l.KL.EMAWeight > 0} {
		if asked {
			each++
		}
	}
	return each, trainer.TimesAtOnce(n, max(1, l.Times), kind.Together != nil && kind.Together(l.Options))
}

// together is how many points go through the network at once in training: those of all times that an objective of
// noised samples asks for at once.
func (c *counting) together() int {
	_, times := c.noised(c.samples())
	return min(c.share(c.samples()*times), c.perPass(&c.Form))
}

// listed is the memory of the lists of prompts.
func (c *counting) listed() (bytes int64) {
	for n := range c.asked.Len() {
		p := c.asked.Prompt(n)
		bytes += int64(unsafe.Sizeof(p)) + int64(len(p.Text)+len(p.Meta)) + 32 // their line's other letters
	}
	return bytes
}

// largest is the form of the largest pictures that a turn, or an evaluation, makes.
func (m *Model) largest(settings experiment.Settings) (*Form, error) {
	held := settings
	held.Evaluates = true
	var most *Form
	extents := slices.Concat(m.extents(settings), m.extents(held))
	frames := settings.Frames() // a prompt with the largest source may be the one with the most frames
	for _, one := range extents {
		frames = max(frames, one.frames)
	}
	for _, size := range m.sources.someSizes(m.follows(settings) || m.follows(held)) {
		extents = append(extents, extent{size, frames})
	}
	for _, one := range extents {
		f, err := m.formOf(settings, one)
		if err != nil {
			return nil, err
		}
		if most == nil || f.At.Tokens > most.At.Tokens {
			most = f
		}
	}
	return most, nil
}

// An iteration that computes nothing, phase by phase, for its peak.

// iterate makes one iteration, of as many samples as go through the network at once.
func (c *counting) iterate(settings experiment.Settings) error {
	if err := c.dry.Over(); err != nil {
		return err
	}
	if err := c.begin(settings); err != nil {
		return err
	}
	most := max(1, c.perPass(&c.Form), (1<<18)/c.At.Pixels())
	keys := make([]trainer.Key, min(c.share(c.samples()), most))
	prompts, err := c.sources.heaviest(len(c.asked.Train))
	if err != nil {
		return err
	}
	for i := range keys { // others than those of its group, as in an iteration
		keys[i] = trainer.Key{Prompt: prompts[i/c.settings.Rollout.Group%len(prompts)], Sample: i}
	}
	c.part() // of another fit
	work, passes := c.dry.Operations(), c.Policy.Passes
	samples, err := c.Policy.Roll(trainer.Current, keys)
	if err != nil {
		return err
	}
	c.phase(&c.need.Sampling)
	c.worked(&c.need.Work.Pass, work, c.Policy.Passes.Rollout-passes.Rollout, 1)
	if _, err := c.Items(samples); err != nil {
		return err
	}
	c.phase(&c.need.Decoding)
	points := make([]trainer.Point, len(samples))
	for i, s := range samples {
		points[i] = trainer.Point{Key: s.Key, State: s.Item.Final, Time: c.settings.Schedule.Timesteps[0]}
	}
	c.part()
	if c.settings.MeasuresFloor() && c.e.Model.Precision == "bf16" {
		some := repeated(points, min(c.samples(), most, mostChecked))
		if err := c.inF32(func(p *Policy) error {
			return c.each(some, func() error { _, err := p.Eval(trainer.Current, some); return err })
		}); err != nil {
			return err
		}
		c.phase(&c.need.Check)
	}
	if err := c.checked(points, min(c.samples(), most)); err != nil {
		return err
	}
	trained := repeated(points, max(len(points), c.together()))
	// A pass begins beside the optimiser's state after an update, and beside the gradients of the pass before it.
	for pass := range 3 {
		sent := c.sent()
		work, passes := c.dry.Operations(), c.Policy.Passes.Backward
		if err := c.train(trained); err != nil {
			return err
		}
		c.worked(&c.need.Work.Train, work, c.Policy.Passes.Backward-passes, c.e.Run.TokenShares())
		c.need.Sent = max(c.need.Sent, (c.sent()-sent)/int64(len(trained)))
		if pass != 1 {
			c.Params().Move(1, 0)
		}
	}
	c.phase(&c.need.Training)
	c.need.Gradient, c.need.Point = model.GradientBytes(c.Moved()), int64(2*8*c.At.Len())
	return nil
}

// worked takes the operations since then for each of some passes, which ranks share.
func (c *counting) worked(into *float64, before float64, passes, ranks int) {
	if passes > 0 {
		*into = max(*into, (c.dry.Operations()-before)*float64(max(1, ranks))/float64(passes))
	}
}

// sent is how many bytes went to other ranks.
func (c *counting) sent() int64 {
	if c.opened.Tokens == nil {
		return 0
	}
	return c.opened.Tokens.Sent
}

// checked asks for some of all samples' decisions at once, as the check before the first update does on one device.
func (c *counting) checked(points []trainer.Point, samples int) error {
	n := min(samples*len(c.settings.Trained), mostChecked)
	if n <= len(points) || len(points) >= c.perPass(&c.Form) || c.settings.Kind().Noised != nil { // training's own passes, or no check
		return nil
	}
	_, err := c.Eval(trainer.Current, repeated(points, n))
	return err
}

// repeated are n points: these, again and again.
func repeated(points []trainer.Point, n int) []trainer.Point {
	all := slices.Clone(points)
	for len(all) < n {
		all = append(all, points...)
	}
	return all[:n:n]
}

// train is a pass forward and backward of each network: gradients of one lie there while another has its turn.
func (c *counting) train(points []trainer.Point) error {
	return c.each(points, func() error {
		model.HoldShards(c.e.Run, c.Moved())
		forward, err := c.Eval(trainer.Current, points)
		if err == nil {
			err = forward.Back(forward.Outputs)
		}
		return err
	})
}

// each gives points a time of each network that is trained, one after the other.
func (c *counting) each(points []trainer.Point, ask func() error) error {
	for _, time := range c.timesOf(c.settings) {
		for i := range points {
			points[i].Time = time
		}
		if err := ask(); err != nil {
			return err
		}
	}
	return nil
}

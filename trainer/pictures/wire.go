package pictures

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: samples that another process rolled (model.Remote). Of each, all but the numbers follows from its key: the
// size, the steps that are judged, their times. Of the numbers, a choice lies as far from its mean as noise takes it,
// and its log-probability is the row's own of these two. A worker that says something else computes wrongly, or wants
// to: its ratios would be infinite.
//
// Invariants (tests): rollouts of the iteration are taken; a change of anything but a state's or a mean's own bits
// is refused.

// Values implements model.Remote.
func (m *Model) Values(w trainer.Weights) ([]safetensors.Tensor, error) {
	return m.learner.Values(w, "")
}

// Take implements model.Remote.
func (m *Model) Take(f *safetensors.File) error { return m.learner.Take(f, "") }

// Recall implements model.Recaller.
func (p *Policy) Recall(s trainer.Sample) [][]float64 {
	d, known := s.Decisions, p.known
	if known.outputs == nil || len(d.Step) == 0 || p.changes() != known.changes {
		return nil
	}
	all := make([][]float64, len(d.Step))
	for k := range all {
		if all[k] = known.outputs[asking{&d.State[k][0], d.Time[k]}]; all[k] == nil {
			return nil
		}
	}
	return all
}

// Remember implements model.Recaller.
func (p *Policy) Remember(samples []trainer.Sample, outputs [][][]float64, differs func(of trainer.Key)) {
	if samples == nil {
		p.known = recalled{}
	}
	if outputs == nil {
		return
	}
	if p.known = p.remember(trainer.Current); p.known.outputs == nil {
		return
	}
	p.known.differs = differs
	for i, s := range samples {
		for k, x := range outputs[i] {
			p.known.outputs[asking{&s.Decisions.State[k][0], s.Decisions.Time[k]}] = x
		}
	}
}

// Means implements model.Recaller.
func (m *Model) Means(r model.Rolled, samples []trainer.Sample, outputs [][][]float64) ([][][]float64, error) {
	p, err := m.rolledBy(r)
	if err != nil {
		return nil, err
	}
	all := make([][][]float64, len(samples))
	for i, s := range samples {
		rows := p.form(s.Key).Rows
		for k := range outputs[i] {
			step := s.Decisions.Step[k]
			if step < 0 || step >= len(rows) {
				return nil, fmt.Errorf("sample %d of prompt %d: a decision of step %d, and the sampler has %d", s.Key.Sample, s.Key.Prompt, step, len(rows))
			}
			if rows[step].Lags() > 0 {
				all[i] = nil
				break
			}
			var h sde.History
			h.Push(s.Decisions.State[k], outputs[i][k])
			all[i] = append(all[i], rows[step].Mean(&h))
		}
	}
	return all, nil
}

// mostLatent bounds latents: those of a network that can be learned from lie within some hundreds.
const mostLatent = 1e6

// mostSpread bounds how far choices lie from their mean, in deviations, as a mean of squares: 1 where they are drawn.
const mostSpread = 25

// rolledBy is a policy that samples as r says, and computes nothing.
func (m *Model) rolledBy(r model.Rolled) (*Policy, error) {
	p, key := &Policy{Draws: trainer.Draws{Root: r.Root, Fixed: r.Fixed}}, r.Root
	if !r.Fixed {
		key = rng.New(uint64(r.Settings.Run.Seed))
		p.Trained, p.Draws.Shared = r.Settings.Trained, r.Settings.Rollout.SharedNoise
	}
	return p, m.follow(p, r.Settings, key, r.Fixed)
}

// recorded are the steps that a key's sample keeps, and how much noise it draws at each.
func (p *Policy) recorded(k trainer.Key) (steps []int, scales []float64) {
	f := p.form(k)
	var pic pipeline.Picture
	pic.StartKey, pic.StepKey = p.Draws.Keys(k)
	if f.Forest != nil {
		f.Forest.hang(&pic, p.Draws, k)
	} else if f.One != nil {
		f.One.draw(&pic, p.Draws, k)
	}
	for step := range f.Rows {
		if !slices.Contains(p.Trained, step) {
			continue
		}
		d := pipeline.Draw{On: true, Scale: 1}
		if pic.Draw != nil {
			d = pic.Draw(step)
		}
		if d.On {
			steps, scales = append(steps, step), append(scales, d.Scale)
		}
	}
	return steps, scales
}

// Fits implements model.Remote.
func (m *Model) Fits(r model.Rolled, samples []trainer.Sample) error {
	p, err := m.rolledBy(r)
	if err != nil {
		return err
	}
	for _, s := range samples {
		if err := p.fits(s); err != nil {
			return fmt.Errorf("sample %d of prompt %d: %w", s.Key.Sample, s.Key.Prompt, err)
		}
	}
	return nil
}

func (p *Policy) fits(s trainer.Sample) error {
	f, d := p.form(s.Key), s.Decisions
	if s.Item.Size != [2]int{f.At.Width, f.At.Height} || s.Item.Frames != f.At.Frames {
		return fmt.Errorf("it has %d x %d and %d frames, and %d x %d and %d were asked for", s.Item.Size[0], s.Item.Size[1], s.Item.Frames, f.At.Width, f.At.Height, f.At.Frames)
	}
	if (s.Item.Image != nil) != (f.At.Frames <= 1) || s.Item.Clip != nil || s.Item.Episode != nil {
		return errors.New("it shows something else than was asked for")
	}
	steps, scales := p.recorded(s.Key)
	if !slices.Equal(d.Step, steps) {
		return fmt.Errorf("its decisions are of the steps %v, and those of %v are judged", d.Step, steps)
	}
	if len(d.Time) != len(steps) || len(d.LogProb) != len(steps) || len(d.Trained) != len(steps) || slices.Contains(d.Trained, false) {
		return errors.New("it leaves decisions out that are judged")
	}
	if err := f.latents(s.Item.Final); err != nil {
		return err
	}
	for k := range steps {
		if err := f.decided(d, k, scales[k]); err != nil {
			return fmt.Errorf("step %d: %w", steps[k], err)
		}
	}
	return nil
}

// latents refuses numbers that are not the latents of a sample.
func (f *Form) latents(x []float64) error {
	if len(x) != f.At.Len() {
		return fmt.Errorf("latents of %d numbers, and a sample of %d x %d and %d frames has %d", len(x), f.At.Width, f.At.Height, f.At.Frames, f.At.Len())
	}
	for _, v := range x {
		if !(math.Abs(v) <= mostLatent) {
			return fmt.Errorf("latents with the number %v, and they lie between -%v and %v", v, mostLatent, mostLatent)
		}
	}
	return nil
}

// decided refuses numbers that cannot be decision k with noise of this scale.
func (f *Form) decided(d trainer.Decisions, k int, scale float64) error {
	row, mean, choice := f.Rows[d.Step[k]], d.Mean[k], d.Action[k]
	for _, x := range [][]float64{d.State[k], mean, choice} {
		if err := f.latents(x); err != nil {
			return err
		}
	}
	if d.Time[k] != f.Times[d.Step[k]] {
		return fmt.Errorf("its time is %v, and the schedule's %v", d.Time[k], f.Times[d.Step[k]])
	}
	if lp := row.LogProb(mean, choice); lp != d.LogProb[k] {
		return fmt.Errorf("its log-probability is said to be %v, and is %v", d.LogProb[k], lp)
	}
	sum := 0.0
	for i, m := range mean {
		x := choice[i] - m
		sum += float64(x * x)
	}
	far := math.Abs(row.Noise) * max(scale, 1)
	if row.Stochastic() && sum > mostSpread*far*far*float64(len(mean)) {
		return fmt.Errorf("its choice lies %.3g deviations from the mean", math.Sqrt(sum/float64(len(mean)))/far)
	}
	return nil
}

// Most is model.Remote's: latents as float64, a picture as PNG that nothing makes smaller, and the list of them.
func (m *Model) Most(r model.Rolled, keys []trainer.Key) int64 {
	p, err := m.rolledBy(r)
	if err != nil {
		return 0
	}
	const each, list, all = 256, 4 << 10, 64 << 10 // of a tensor in the file's head, a sample in the metadata, and a file
	most := int64(all)
	for _, k := range keys {
		at := p.form(k).At
		steps, _ := p.recorded(k)
		tensors := int64(3 + 3*len(steps))
		most += tensors*int64(8*at.Len()+each) + list
		if at.Frames <= 1 {
			most += int64(4*at.Width*at.Height) + list
		}
	}
	return most
}

// Results of final latents: pictures, or clips of more than one frame.

// Items decodes final latents, but those whose pictures came with them.
func (m *Model) Items(samples []trainer.Sample) (items []rewards.Item, err error) {
	finals := make([][]float64, len(samples))
	for i, s := range samples {
		finals[i] = s.Item.Final
		for _, v := range finals[i] {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, kernels.NotFiniteError("the latents of sample %d of prompt %d hold numbers that are infinite or none", s.Key.Sample, s.Key.Prompt)
			}
		}
	}
	items = make([]rewards.Item, len(samples))
	for i, s := range samples {
		items[i].Image = s.Item.Image
	}
	for of, places := range sizesOf(samples) {
		at, err := shape(m.Pipeline, of.size, max(1, of.frames))
		if err != nil {
			return nil, err
		}
		for some := range slices.Chunk(places, portion(at)) {
			raw, err := m.decode(trainer.Pick(finals, some), at)
			if err != nil {
				return nil, err
			}
			for i, x := range raw {
				if items[some[i]], err = developed(x, at, m.Pipeline.Defaults().Rate); err != nil {
					return nil, err
				}
			}
		}
	}
	for i, s := range samples {
		if items[i].Sources, err = m.sources.pictures(s.Key.Prompt); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// decode decodes pictures at once, or where memory runs out, half of them after the other.
func (m *Model) decode(finals [][]float64, at pipeline.Shape) (raw [][]float32, err error) {
	err = m.Pipeline.Pool.Attempt(func() (err error) {
		raw, err = m.Pipeline.DecodeAll(finals, at)
		return err
	})
	if n := len(finals) / 2; n > 0 && memoryIsOut(err) {
		if m.Logf != nil {
			m.Logf("memory ran out in the autoencoder: %d at once instead of %d (no bit depends on it): %v", n, len(finals), err)
		}
		if raw, err = m.decode(finals[:n], at); err != nil {
			return nil, err
		}
		rest, err := m.decode(finals[n:], at)
		return append(raw, rest...), err
	}
	return raw, err
}

// developed is the autoencoder's output, as people see it.
func developed(x []float32, at pipeline.Shape, rate int) (item rewards.Item, err error) {
	if at.Frames <= 1 {
		item.Image, err = vision.FromFloats(x, at.Width, at.Height, vision.Signed, vision.ChannelsLast)
		return item, err
	}
	item.Clip = &video.Clip{Width: at.Width, Height: at.Height, Rate: video.Rate{Num: rate, Den: 1}}
	for each := len(x) / at.Frames; len(x) > 0; x = x[each:] {
		frame, err := vision.FromFloats(x[:each], at.Width, at.Height, vision.Signed, vision.ChannelsLast)
		if err != nil {
			return item, err
		}
		item.Clip.Frames = append(item.Clip.Frames, frame.Pix)
	}
	return item, nil
}

// measures are the sizes of a sample's result.
type measures struct {
	size   [2]int
	frames int
}

// sizesOf are the places of samples that are to be developed, by their measures.
func sizesOf(samples []trainer.Sample) map[measures][]int {
	places := map[measures][]int{}
	for i, s := range samples {
		if s.Item.Image != nil {
			continue
		}
		of := measures{s.Item.Size, s.Item.Frames}
		places[of] = append(places[of], i)
	}
	return places
}

package pipeline

import (
	"context"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// How much memory a call will take is found by making it: the same code runs on a backend that computes nothing and
// counts. Weights are not read. Memory that the backend does not see is added: latents and pictures on the host, and
// garbage of Go's collector.
//
// Invariant (test): the process's measured peak is its memory before plus the prediction, within the margin below.

// Memory is how a pipeline trades time for memory. No bit of its results depends on it.
type Memory struct {
	KeepEncoders bool      // text encoders stay in memory between calls of Encode
	LendEncoders bool      // text encoders read their matrices from the disk
	Home         nn.Home   // where the denoiser's frozen matrices lie
	Stock        *nn.Stock // of homes that devices share; nil: one of each network's own
	Tight        bool      // one matrix at a time is held of those that lie elsewhere
	Lean         bool      // training packs one trained matrix at a time, and keeps no packed copy of each
	Aside        bool      // where backward computes all blocks again, their inputs lie on the host
	// Values are another network's parameters, which vectors and trained parameters share; a map for each network.
	Values [mostExperts]map[string]*tensor.Tensor
}

// encoders is where text encoders' matrices lie.
func (m Memory) encoders() nn.Home {
	if m.LendEncoders {
		return nn.Disk
	}
	return nn.Device
}

// Work is a call to predict memory for.
type Work struct {
	At       Shape
	Guidance Guidance
	Pictures int   // 0: one is decoded, and nothing is sampled
	Batch    int   // as a Sampler's
	Text     *Text // of the caller's, where there are no encoders; nil: encoded
	// Sources are the widths and heights of the pictures that each is made of, where the pipeline edits some.
	Sources [][2]int
	LoRA    string // an adapter's folder or file; "" for none
	// Train, where set, puts adapters on the network, or on each of two, and one step of training of Batch
	// pictures follows sampling; of two networks, one each.
	Train      *nn.LoRA
	Checkpoint int // as Tape's
	// Free says that FreeDenoiser is called before pictures are decoded.
	Free bool
}

// Need is bytes beside the process's memory before: the most during each phase.
type Need struct {
	Texts    int64 `json:"texts"`
	Given    int64 `json:"given,omitempty"` // pictures that clips begin or end with
	Sampling int64 `json:"sampling"`
	Training int64 `json:"training,omitempty"`
	Decoding int64 `json:"decoding"`
}

// Peak is the most of all phases.
func (n Need) Peak() int64 { return max(n.Texts, n.Given, n.Sampling, n.Training, n.Decoding) }

// The margin is how far a prediction may be from the truth: a share of it, and some bytes.
const (
	MarginShare = 0.15
	MarginBytes = 48 << 20
)

// aside is memory of every phase: kernels' scratch, and garbage that waits for Go's collector.
const aside = 40 << 20

// Dry is a backend that counts.
type Dry interface {
	kernels.Backend
	Peak() int
	ResetPeak()
}

// Need predicts the memory of work, on an empty backend that counts.
func (p *Pipeline) Need(w Work, dry Dry) (Need, error) {
	var n Need
	o := p.Options
	o.Pool, o.Cache = tensor.NewPool(dry), Cache{}
	twin, err := p.again(o)
	if err != nil {
		return n, err
	}
	defer twin.Close()
	phase := func(into *int64, host int) {
		*into = int64(dry.Peak() + host + aside)
		dry.ResetPeak()
	}
	// float64 latents: those of now and next, a mean, an output, and two that wait.
	host := 6 * 8 * w.At.Len() * w.Pictures
	if w.Pictures > 0 {
		if err := twin.needToSample(w, host, &n, phase); err != nil {
			return n, err
		}
	}
	if w.Free {
		if err := twin.FreeDenoiser(); err != nil {
			return n, err
		}
		dry.ResetPeak()
	}
	if _, err := twin.Decode(make([]float64, w.At.Len()), w.At); err != nil {
		return n, err
	}
	// A picture in fp32 twice, and in bytes.
	phase(&n.Decoding, host+w.At.Pixels()*3*(4+4+1)+w.Pictures*w.At.Pixels()*4)
	return n, nil
}

// needToSample is the phases before decoding.
func (p *Pipeline) needToSample(w Work, host int, n *Need, phase func(into *int64, host int)) error {
	given, err := p.blank(w.At, w.Sources)
	if err != nil {
		return err
	}
	if given != nil {
		pixels := w.At.Pixels()
		for _, size := range w.Sources {
			pixels = max(pixels, size[0]*size[1])
		}
		phase(&n.Given, host+pixels*3*(4+4))
	}
	text := w.Text
	if text == nil {
		if text, err = p.longText(given); err != nil {
			return err
		}
		phase(&n.Texts, 0)
	}
	s, pictures, err := p.oneStep(w, text, given)
	if err != nil {
		return err
	}
	if _, err := p.Sample(context.Background(), pictures, s); err != nil {
		return err
	}
	phase(&n.Sampling, host)
	if w.Train != nil {
		if err := p.trainEach(w, text, given, len(pictures), s.Times[0]); err != nil {
			return err
		}
		phase(&n.Training, host)
	}
	return nil
}

// again opens the same pipeline with other options.
func (p *Pipeline) again(o Options) (*Pipeline, error) {
	if d := p.folder.drawn; d != nil {
		return d.Open(o)
	}
	return Open(p.folder.path, o)
}

// oneStep is a sampler of one step, and as many pictures as go into one run of the network.
func (p *Pipeline) oneStep(w Work, text *Text, given *Given) (Sampler, []Picture, error) {
	s := Sampler{At: w.At, Guidance: w.Guidance, Batch: w.Batch}
	if s.Batch == 0 {
		s.Batch = usualBatch(w.At, []Picture{{Given: given}})
	}
	schedule, err := p.Schedule(2, w.At)
	if err != nil {
		return s, nil, err
	}
	rows, err := p.Rows(schedule, 0)
	if err != nil {
		return s, nil, err
	}
	s.Rows, s.Times = rows[:1], schedule.Timesteps
	switch {
	case w.Train != nil:
		err = p.adapt(*w.Train)
	case w.LoRA != "":
		err = p.AddLoRA(w.LoRA)
	}
	if err == nil && p.Experts() > 1 { // both will be in memory
		_, err = p.loaded(1)
	}
	if err != nil {
		return s, nil, err
	}
	pictures := make([]Picture, min(max(1, w.Pictures), s.Batch))
	for i := range pictures {
		pictures[i] = Picture{Text: text, Negative: text, Given: given, Start: make([]float64, w.At.Len())}
	}
	return s, pictures, nil
}

// trainEach goes forward and backward through every network, whose gradients lie there together.
func (p *Pipeline) trainEach(w Work, text *Text, given *Given, batch int, time float64) error {
	for i := range p.Experts() {
		if i > 0 {
			time = 0 // below every boundary
		}
		if err := p.trainOnce(w, text, given, batch, time); err != nil {
			return err
		}
	}
	return nil
}

// trainOnce goes forward and backward.
func (p *Pipeline) trainOnce(w Work, text *Text, given *Given, batch int, time float64) error {
	tape := p.Tape(true, w.Checkpoint)
	defer tape.Reset()
	points := make([]Point, batch)
	for i := range points {
		points[i] = Point{Latents: make([]float64, w.At.Len()), Time: time, Text: text, Negative: text, Given: given}
	}
	a, err := p.Forward(tape, w.At, w.Guidance, points)
	if err != nil {
		return err
	}
	return a.Back(a.Outputs)
}

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// asked is what is timed.
type asked struct {
	model, precision    string
	size, batch, repeat int
	full, checkpoint    bool
}

func main() {
	var a asked
	flag.StringVar(&a.model, "model", "", "a pipeline's folder")
	flag.StringVar(&a.precision, "precision", "bf16", "bf16 or f32")
	flag.IntVar(&a.size, "size", 512, "pixels a side")
	flag.IntVar(&a.batch, "batch", 1, "pictures at once")
	flag.IntVar(&a.repeat, "repeat", 1, "how often each step is timed; the best counts")
	flag.BoolVar(&a.full, "full", false, "train all of the denoiser, and not an adapter of rank 32")
	flag.BoolVar(&a.checkpoint, "checkpoint", false, "compute again in backward what a pass would keep")
	flag.Parse()
	said, err := a.time()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(said)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "realsteps:", err)
		os.Exit(1)
	}
}

// said is what was found.
type said struct {
	By        string `json:"by"`
	Precision string `json:"precision"`
	Batch     int    `json:"batch"`
	Loading   spent  `json:"loading"`
	Sampling  spent  `json:"sampling"`
	Training  spent  `json:"training"`
}

// time opens the folder, and times both steps.
func (a asked) time() (s said, err error) {
	defer kernels.Recover(&err)
	precision, ok := map[string]pipeline.Precision{"bf16": pipeline.BF16, "f32": pipeline.F32}[a.precision]
	if !ok || a.batch < 1 || a.size < 1 {
		return s, errors.New("--precision is bf16 or f32, --size and --batch at least 1")
	}
	be, err := cpu.New()
	if err != nil {
		return s, err
	}
	defer be.Close()
	o := pipeline.Options{Pool: tensor.NewPool(be), Precision: precision}
	if a.full {
		o.Train = []string{".*"}
	}
	s = said{By: "darkroom", Precision: a.precision, Batch: a.batch}
	var steps *stepper
	if s.Loading, err = best(1, func() error {
		steps, err = a.open(o)
		return err
	}); err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, steps.p.Close()) }()
	if s.Sampling, err = best(a.repeat, steps.sample); err != nil {
		return s, err
	}
	s.Training, err = best(a.repeat, func() error { return steps.train(a.checkpoint) })
	return s, err
}

// stepper asks the network the same questions again and again.
type stepper struct {
	p         *pipeline.Pipeline
	at        pipeline.Shape
	questions []pipeline.Question
}

func (a asked) open(o pipeline.Options) (*stepper, error) {
	p, err := pipeline.Open(a.model, o)
	if err != nil {
		return nil, err
	}
	s := &stepper{p: p}
	if s.at, err = p.Shape(a.size, a.size); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	texts, err := p.Encode("a red circle on white")
	if err == nil {
		err = p.FreeEncoders()
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	params, err := p.Denoiser()
	if err == nil && !a.full {
		_, err = params.AddLoRA(nn.LoRA{Rank: 32, Alpha: 64, Targets: p.Targets(), Key: rng.New(1)})
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	for i := range a.batch {
		s.questions = append(s.questions, pipeline.Question{Latents: pipeline.Noise(rng.New(2).Sample(i), s.at), Time: 500, Text: texts[0], Negative: texts[0]})
	}
	return s, nil
}

// sample is one pass of the network.
func (s *stepper) sample() error {
	tape := s.p.Tape(false, false)
	defer tape.Reset()
	_, err := s.p.Ask(tape, s.at, pipeline.Guidance{}, s.questions)
	return err
}

// train is one forward and backward, after which gradients are forgotten.
func (s *stepper) train(checkpoint bool) error {
	tape := s.p.Tape(true, checkpoint)
	defer tape.Reset()
	answers, err := s.p.Ask(tape, s.at, pipeline.Guidance{}, s.questions)
	if err == nil {
		err = answers.Back(answers.Outputs)
	}
	if err != nil {
		return err
	}
	params, err := s.p.Denoiser()
	if err == nil {
		params.ZeroGrad()
	}
	return err
}

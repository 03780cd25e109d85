package main

import (
	"context"
	"errors"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision"
)

// stepper runs the network at the same points again and again.
type stepper struct {
	p      *pipeline.Pipeline
	at     pipeline.Shape
	text   *pipeline.Text
	given  *pipeline.Given // where the network reads a picture with every clip
	points []pipeline.Point
}

// open opens a folder as it is trained: the text encoders let go, an adapter on the network.
func (a asked) stepper(o pipeline.Options) (*stepper, error) {
	p, err := pipeline.Open(a.model, o)
	if err != nil {
		return nil, err
	}
	s := &stepper{p: p}
	if err := s.prepare(a); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return s, nil
}

func (s *stepper) prepare(a asked) (err error) {
	if s.p.Clips() {
		s.at, err = s.p.ClipShape(a.frames, a.height, a.width)
	} else {
		s.at, err = s.p.Shape(a.height, a.width)
	}
	if err != nil {
		return err
	}
	texts, err := s.p.Encode("a red circle on white")
	if err == nil {
		err = s.p.FreeEncoders()
	}
	if err != nil {
		return err
	}
	s.text = texts[0]
	if _, must, _, mustLast := s.p.Gives(); must && err == nil {
		first, last := vision.New(a.width, a.height), (*vision.Image)(nil)
		if mustLast {
			last = first
		}
		s.given, err = s.p.Give(context.Background(), s.at, first, last)
	}
	if err != nil {
		return err
	}
	params, err := s.p.Denoiser()
	if err == nil && !a.full {
		_, err = params.AddLoRA(nn.LoRA{Rank: a.rank, Alpha: float32(2 * a.rank), Targets: s.p.Targets(), Key: rng.New(1)})
	}
	return err
}

// ask sets the number of points.
func (s *stepper) ask(batch int) {
	s.points = nil
	for i := range batch {
		s.points = append(s.points, pipeline.Point{Latents: pipeline.Noise(rng.New(2).Sample(i), s.at), Time: 500, Text: s.text, Negative: s.text, Given: s.given})
	}
}

// sample is one pass of the network.
func (s *stepper) sample() error {
	tape := s.p.Tape(false, 0)
	defer tape.Reset()
	_, err := s.p.Forward(tape, s.at, pipeline.Guidance{}, s.points)
	return err
}

// decode is the autoencoder's way back to pixels, of the latents of every point.
func (s *stepper) decode() error {
	var latents [][]float64
	for _, q := range s.points {
		latents = append(latents, q.Latents)
	}
	_, err := s.p.DecodeAll(latents, s.at)
	return err
}

// train is one forward and backward, after which gradients are forgotten.
func (s *stepper) train(again int) error {
	tape := s.p.Tape(true, again)
	defer tape.Reset()
	forward, err := s.p.Forward(tape, s.at, pipeline.Guidance{}, s.points)
	if err == nil {
		err = forward.Back(forward.Outputs)
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

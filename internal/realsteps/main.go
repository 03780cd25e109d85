package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/choice"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/sampling"
)

// asked is the timed input.
type asked struct {
	model, precision, device    string
	decoder                     string // its precision; empty: the folder's own choice
	width, height, frames, rank int
	repeat                      int
	batches                     []int
	full, lean, forward         bool
	again                       int
	decode                      bool
	talk                        bool
	prompt, answer              int
	draw                        bool // tokens, by sampling
	sampling                    sampling.Options
}

func main() {
	a := asked{sampling: sampling.Default()}
	size, batches, checkpoint := 0, "", false
	flag.StringVar(&a.model, "model", "", "a pipeline's folder, or, with --talk, a vision-language model's")
	flag.StringVar(&a.precision, "precision", "bf16", "bf16 or f32")
	flag.StringVar(&a.device, "device", "cpu", "cpu, cuda:0, or count: compute nothing and count operations, of folders that may be without weights")
	flag.IntVar(&size, "size", 512, "pixels a side")
	flag.IntVar(&a.width, "width", 0, "pixels, where sides differ")
	flag.IntVar(&a.height, "height", 0, "pixels, where sides differ")
	flag.IntVar(&a.frames, "frames", 33, "of a clip")
	flag.IntVar(&a.rank, "rank", 32, "of the adapter that is trained")
	flag.StringVar(&batches, "batch", "1", "pictures at once, or answers; several as 1,4,16")
	flag.IntVar(&a.repeat, "repeat", 1, "how often each step is timed; the best counts")
	flag.BoolVar(&a.full, "full", false, "train all of the denoiser, and not an adapter")
	flag.BoolVar(&checkpoint, "checkpoint", false, "compute again in backward what a pass would keep: --again 4")
	flag.BoolVar(&a.lean, "lean", false, "with --full: no packed copies of all that is trained beside its gradients")
	flag.IntVar(&a.again, "again", 0, "of every four blocks, how many backward computes again")
	flag.BoolVar(&a.forward, "forward", false, "sampling alone")
	flag.StringVar(&a.decoder, "decoder", "", "the decoder's precision, bf16 or f32; empty: as training decodes")
	flag.BoolVar(&a.decode, "decode", false, "time the autoencoder's decoding too")
	flag.BoolVar(&a.talk, "talk", false, "time answers")
	flag.IntVar(&a.prompt, "prompt", 512, "tokens of a prompt")
	flag.IntVar(&a.answer, "answer", 64, "tokens of an answer")
	flag.BoolVar(&a.draw, "draw", false, "with --talk: tokens are drawn from the logits as training draws them, with --top-p and --top-k")
	flag.Float64Var(&a.sampling.TopP, "top-p", 1, "with --draw: the likeliest tokens that hold this share")
	flag.IntVar(&a.sampling.TopK, "top-k", 0, "with --draw: the k likeliest tokens; 0: all")
	flag.Parse()
	if checkpoint {
		a.again = autograd.AllBlocks
	}
	if a.width == 0 {
		a.width = size
	}
	if a.height == 0 {
		a.height = size
	}
	if err := a.run(batches); err != nil {
		fmt.Fprintln(os.Stderr, "realsteps:", err)
		os.Exit(1)
	}
}

// run opens the device and the folder once, and prints a line of JSON for each batch.
func (a asked) run(batches string) (err error) {
	defer kernels.Recover(&err)
	for _, text := range strings.Split(batches, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("--batch %s: numbers from 1 on are possible", batches)
		}
		a.batches = append(a.batches, n)
	}
	if _, ok := precisions[a.decoder]; !ok && a.decoder != "" {
		return errors.New("--decoder is bf16 or f32")
	}
	if _, ok := precisions[a.precision]; !ok || a.width < 1 || a.height < 1 || a.again < 0 || a.again > autograd.AllBlocks {
		return errors.New("--precision is bf16 or f32, --size at least 1, --again 0 to 4")
	}
	be, end, err := a.open()
	if err != nil {
		return err
	}
	defer end()
	m := meter{be: be, repeat: a.repeat}
	if a.talk {
		return a.answers(m, json.NewEncoder(os.Stdout))
	}
	return a.steps(m, json.NewEncoder(os.Stdout))
}

// open opens the device of --device, and returns its close function.
func (a asked) open() (kernels.Backend, func(), error) {
	switch a.device {
	case "count":
		be, err := newCounted()
		return be, func() {}, err
	case "cpu":
		be, err := choice.Backend(0, choice.Measure)
		if err != nil {
			return nil, nil, err
		}
		return be, be.Close, nil
	}
	n, err := driver.ParseDevice(a.device)
	if err != nil {
		return nil, nil, err
	}
	be, err := cuda.OpenAs(n, os.Getenv(cuda.ModeVariable))
	if err != nil {
		return nil, nil, err
	}
	return be, func() {
		be.WriteKernelTimes(os.Stderr)
		_ = be.Close()
	}, nil
}

var precisions = map[string]pipeline.Precision{"bf16": pipeline.BF16, "f32": pipeline.F32}

// said is the printed line.
type said struct {
	By        string `json:"by"`
	Precision string `json:"precision"`
	Batch     int    `json:"batch"`
	Loading   spent  `json:"loading"`
	Sampling  spent  `json:"sampling"`
	Training  *spent `json:"training,omitempty"`
	Decoding  *spent `json:"decoding,omitempty"`
}

// steps opens the folder, and times sampling and training in each batch.
func (a asked) steps(m meter, out *json.Encoder) (err error) {
	count, err := newCounted()
	if err != nil {
		return err
	}
	dry, err := a.stepper(a.options(count))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dry.p.Close()) }()
	var on *stepper
	loading, err := m.once(func() (err error) {
		on, err = a.stepper(a.options(m.be))
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.p.Close()) }()
	for _, batch := range a.batches {
		on.ask(batch)
		dry.ask(batch)
		s := said{By: "darkroom", Precision: a.precision, Batch: batch, Loading: loading}
		if s.Sampling, err = m.counted(count, on, dry, (*stepper).sample); err != nil {
			return err
		}
		if !a.forward {
			training, err := m.counted(count, on, dry, func(s *stepper) error { return s.train(a.again) })
			if err != nil {
				return err
			}
			s.Training = &training
		}
		if a.decode {
			decoding, err := m.counted(count, on, dry, (*stepper).decode)
			if err != nil {
				return err
			}
			s.Decoding = &decoding
		}
		if err := out.Encode(s); err != nil {
			return err
		}
		on.p.Pool.Trim()
		dry.p.Pool.Trim()
	}
	return nil
}

func (a asked) options(be kernels.Backend) pipeline.Options {
	o := pipeline.Options{Pool: tensor.NewPool(be), Precision: precisions[a.precision], Memory: pipeline.Memory{Lean: a.lean}}
	if decoder, ok := precisions[a.decoder]; ok {
		o.Decoder = &decoder
	}
	if a.full {
		o.Train = []string{".*"}
	}
	return o
}

// counted times a step, and counts its operations. On the host memory that waits is given back before more is asked
// for than the step needs at once, as a run does with a large model.
func (m meter) counted(count *cpu.Dry, on, dry *stepper, step func(*stepper) error) (b spent, err error) {
	_, far := m.be.(onDevice)
	if pool := dry.p.Pool; !far {
		pool.Limit = 1
		pool.Trim()
		pool.ResetPeak()
	}
	before := count.Operations()
	count.ResetPeak()
	if err := step(dry); err != nil {
		return b, err
	}
	peak, operations := count.Peak(), count.Operations()-before
	if !far {
		on.p.Pool.Limit = peak
	}
	if b, err = m.best(func() error { return step(on) }); err != nil {
		return b, err
	}
	b.PredictedMiB = peak >> 20
	return b.did(operations), nil
}

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
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

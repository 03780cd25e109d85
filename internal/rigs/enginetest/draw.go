package enginetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// How tokens are drawn, and the faults of those that draw them.

// drawn are tokens with their log-probabilities.
type drawn struct {
	ids    []int32
	logs   []float64
	cut    bool
	read   int
	prompt []float64 // of the question's tokens, NaN first
	asked  []int32
}

// asking is a request, whatever its protocol.
type asking struct {
	ids         []int32 // with all places
	pictures    []*vision.Image
	most        int
	temperature float64
	end         int32
	banned      map[string]float64
	fault       string
	score       bool // the question's own tokens, too
}

// draw draws.
func (s *Server) draw(k *conversations.Speaker, a asking) (d drawn, err error) {
	d.asked, d.read = a.ids, len(a.ids)
	if a.fault == "grey pictures" {
		a.pictures = conversations.Grey(a.pictures)
	}
	if a.score {
		if d.prompt, err = k.Scores(a.ids, a.pictures, 1); err != nil {
			return d, err
		}
		d.prompt[0] = math.NaN()
	}
	most := a.most
	if a.fault == "too many tokens" {
		most += 3
	}
	shown, err := k.Patches(a.pictures)
	if err != nil {
		return d, err
	}
	decoder := k.Model.NewDecoder(k.Options.Pool, autograd.Options{DType: kernels.BF16, Math: kernels.MathBF16}, 1)
	defer decoder.Close()
	free, err := decoder.Extend(0, vlm.Stretch{IDs: a.ids, Pictures: shown})
	if err != nil {
		return d, err
	}
	key := rng.New(uint64(s.asked))
	for d.cut = true; len(d.ids) < most; {
		last := slices.Clone(free)
		for id := range last {
			if _, ok := a.banned[fmt.Sprint(id)]; ok && a.fault != "banned" {
				last[id] = float32(math.Inf(-1))
			}
		}
		u, sum, at, all := key.Step(len(d.ids)).Draw().Float64(), 0.0, 0, logSum(last, a.temperature)
		for id, x := range last {
			if math.IsInf(float64(x), -1) {
				continue
			}
			if p := portable.Exp(float64(x)/a.temperature - all); p > 0 {
				at = id
				if sum += p; u < sum {
					break
				}
			}
		}
		if at == int(a.end) && a.fault == "too many tokens" {
			at = 0
		}
		t := a.temperature
		if a.fault == "temperature" {
			t = 1
		}
		lp := float64(free[at])/t - logSum(free, t)
		d.ids, d.logs = append(d.ids, int32(at)), append(d.logs, lp)
		if at == int(a.end) {
			d.cut = false
			break
		}
		rows, err := decoder.Step([]int{0}, d.ids[len(d.ids)-1:])
		if err != nil {
			return d, err
		}
		free = rows[0]
	}
	switch a.fault {
	case "wrong ids":
		d.ids[0] = int32(k.Model.Text.Vocabulary)
	case "another tokenizer":
		d.asked = slices.Clone(d.asked)
		d.asked[len(d.asked)-2]++
	case "another precision":
		for i := range d.prompt {
			d.prompt[i] += float64(i%3) - 1
		}
	}
	return d, nil
}

// logSum is the logarithm of Σ e^(x/t).
func logSum(row []float32, t float64) float64 {
	top, sum := math.Inf(-1), 0.0
	for _, x := range row {
		top = max(top, float64(x)/t)
	}
	for _, x := range row {
		if math.IsInf(float64(x), -1) {
			continue
		}
		sum += portable.Exp(float64(x)/t - top)
	}
	return top + portable.Log(sum)
}

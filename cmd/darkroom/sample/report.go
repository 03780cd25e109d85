package sample

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/version"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/vision"
)

// report is the output of --json.
type report struct {
	Out      string            `json:"out"`
	Width    int               `json:"width"` // of one picture
	Height   int               `json:"height"`
	Frames   int               `json:"frames,omitempty"` // of one clip
	Pictures int               `json:"pictures"`
	Settings map[string]string `json:"settings"`
	Cut      []cutText         `json:"cut,omitempty"`
	Seconds  seconds           `json:"seconds"`
	Memory   memory            `json:"memory"`

	order []vision.Setting
}

// cutText is the end of a prompt that an encoder did not read.
type cutText struct {
	Prompt  string `json:"prompt"`
	Encoder int    `json:"encoder"`
	Tokens  int    `json:"tokens"` // that it reads
	Text    string `json:"text"`
}

type seconds struct {
	Texts   float64 `json:"texts"`
	Load    float64 `json:"load"`
	Sample  float64 `json:"sample"`
	Decode  float64 `json:"decode"`
	PerStep float64 `json:"per_picture_step"`
}

// memory is resident memory at most, as it was predicted before any weight was read
// and as it was. A system that does not say gives 0.
type memory struct {
	Peak      int64         `json:"peak_bytes"`
	Predicted int64         `json:"predicted_bytes"`
	Need      pipeline.Need `json:"need"` // beside the program's own memory
}

func (r *report) write(w io.Writer) {
	kind, frames := "picture", ""
	if r.Frames > 0 {
		kind, frames = "clip", ", "+console.Plural(int64(r.Frames), "frame")
	}
	fmt.Fprintf(w, "%s: %s of %d x %d%s, %.1f s (%.3f s a %s and step)\n", r.Out, console.Plural(int64(r.Pictures), kind), r.Width, r.Height, frames,
		r.Seconds.Texts+r.Seconds.Load+r.Seconds.Sample+r.Seconds.Decode, r.Seconds.PerStep, kind)
	if strings.EqualFold(filepath.Ext(r.Out), ".png") {
		console.ShowPicture(w, r.Out)
	}
	if r.Memory.Peak > 0 {
		fmt.Fprintf(w, "memory: at most %s, %s were predicted\n", console.Bytes(r.Memory.Peak), console.Bytes(r.Memory.Predicted))
	}
	for _, c := range r.Cut {
		fmt.Fprintf(w, "note: encoder %d reads %d tokens; this end of the prompt was cut off: %s\n", c.Encoder, c.Tokens, console.Printable(c.Text))
	}
}

// cuts notes the ends of texts that encoders did not read.
func (r *report) cuts(t *pipeline.Text) {
	for i, cut := range t.Cut {
		if cut != "" {
			r.Cut = append(r.Cut, cutText{Prompt: t.Prompt, Encoder: i + 1, Tokens: len(t.IDs[i]), Text: cut})
		}
	}
}

// settings are all that makes the picture again.
func (o *options) settings(p *pipeline.Pipeline, plan *plan) []vision.Setting {
	var all []vision.Setting
	add := func(key, value string) { all = append(all, vision.Setting{Key: key, Value: value}) }
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for i, text := range o.prompts {
		key := "prompt"
		if len(o.prompts) > 1 {
			key = fmt.Sprintf("prompt %d", i+1)
		}
		add(key, strings.ReplaceAll(text, "\x00", ""))
	}
	add("negative", strings.ReplaceAll(o.negative, "\x00", ""))
	add("model", o.model)
	add("pipeline", p.Class())
	if o.from != nil {
		add("run", o.from.Checkpoint.Dir)
		add("weights", o.weights)
	} else if o.lora != "" {
		add("lora", o.lora)
	}
	add("n", strconv.Itoa(o.n))
	add("seed", strconv.FormatUint(o.seed, 10))
	add("steps", strconv.Itoa(plan.steps))
	add("solver", plan.solver)
	if plan.draws {
		add("noise", number(o.noise))
	}
	add("guidance", number(plan.guidance))
	if o.trueCFG > 0 {
		add("true-cfg", number(o.trueCFG))
	}
	if plan.Guidance.Second > 0 {
		add("guidance-2", number(plan.Guidance.Second))
	}
	if plan.At.Frames > 0 {
		add("frames", strconv.Itoa(plan.At.Frames))
	}
	for i, file := range o.images {
		key := "image"
		if len(o.images) > 1 {
			key = fmt.Sprintf("image %d", i+1)
		}
		add(key, file)
	}
	if o.last != "" {
		add("last-image", o.last)
	}
	add("width", strconv.Itoa(plan.At.Width))
	add("height", strconv.Itoa(plan.At.Height))
	add("dtype", o.precision.String())
	if o.tile != "" {
		add("tile", o.tile)
	}
	if o.textLength != 0 {
		add("text-length", strconv.Itoa(max(o.textLength, 0)))
	}
	if len(o.textLayers) > 0 {
		add("text-layers", strings.Trim(strings.ReplaceAll(fmt.Sprint(o.textLayers), " ", ","), "[]"))
	}
	if plan.Guidance.Most > 0 {
		add("cfg-normalization", number(plan.Guidance.Most))
	}
	if o.latents != "" {
		add("latents", o.latents)
	}
	add("Software", "darkroom "+version.Read().Version)
	return all
}

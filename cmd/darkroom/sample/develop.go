package sample

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/outside/machine"
	"github.com/darkroom-rl/darkroom/vision"
)

// run makes the pictures.
func (o *options) sample(cmd *cobra.Command) (r *report, err error) {
	be, err := devices.Open(o.device)
	if err != nil {
		return nil, err
	}
	defer be.Close()
	pool := tensor.NewPool(be)
	values, err := o.take(cmd.Flags().Changed, pool, cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	defer func() { err = inputs.CloseValues(values, err) }()
	dir, err := assets.Resolve(o.model)
	if err != nil {
		return nil, exits.Usage(err)
	}
	opened := pipeline.Options{Pool: pool, Precision: o.precision, TextLength: o.textLength, TextLayers: o.textLayers, Cache: pipeline.Cache{Dir: o.cache, Arithmetic: devices.Arithmetic(be)}, Tile: o.tileSide, SourceArea: o.sourceArea, Base: o.base}
	if values != nil {
		for _, n := range values.Networks {
			opened.Weights[n.Number] = n
		}
	}
	p, err := pipeline.Open(dir, opened)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	plan, err := o.plan(p)
	if err != nil {
		return nil, exits.Usage(err)
	}
	return o.develop(cmd.Context(), p, plan, cmd.ErrOrStderr())
}

// develop encodes, samples, decodes and writes.
func (o *options) develop(ctx context.Context, p *pipeline.Pipeline, plan *plan, log io.Writer) (*report, error) {
	r := &report{Out: o.out, Width: plan.At.Width, Height: plan.At.Height, Frames: plan.At.Frames, Pictures: o.n * len(o.prompts), Settings: map[string]string{}}
	r.order = o.settings(p, plan)
	for _, s := range r.order {
		r.Settings[s.Key] = s.Value
	}
	if err := o.predict(r, p, plan, log); err != nil {
		return nil, err
	}
	clock := time.Now()
	lap := func(into *float64) { *into, clock = time.Since(clock).Seconds(), time.Now() }
	given, err := o.given(ctx, p, plan.At)
	if err != nil {
		return nil, err
	}
	texts, err := p.EncodeWith(given, append(append([]string(nil), o.prompts...), o.negative)...)
	if err != nil {
		return nil, err
	}
	lap(&r.Seconds.Texts)
	if o.lora != "" {
		err = p.AddLoRA(o.lora)
	} else {
		_, err = p.Denoiser()
	}
	if err != nil {
		return nil, err
	}
	lap(&r.Seconds.Load)
	negative := texts[len(texts)-1]
	var pictures []pipeline.Picture
	for i, text := range texts[:len(texts)-1] {
		r.cuts(text)
		for j := range o.n {
			pic := pipeline.Picture{Text: text, Negative: negative, Given: given}
			pic.StartKey, pic.StepKey = pipeline.Draws(o.seed, i, j)
			pictures = append(pictures, pic)
		}
	}
	if err := o.startAt(p, plan.At, pictures); err != nil {
		return nil, err
	}
	bar := console.NewProgress(log, "sampling")
	plan.Progress = bar.Set
	tracks, err := p.Sample(ctx, pictures, plan.Sampler)
	bar.End()
	if err != nil {
		return nil, err
	}
	lap(&r.Seconds.Sample)
	r.Seconds.PerStep = r.Seconds.Sample / float64(len(pictures)*len(plan.Rows))
	if err := p.FreeDenoiser(); err != nil {
		return nil, err
	}
	write, err := o.decode(ctx, p, tracks, plan.At)
	if err != nil {
		return nil, err
	}
	lap(&r.Seconds.Decode)
	r.Memory.Peak = int64(machine.PeakMiB()) << 20
	return r, write(r.order)
}

// decode makes pictures or clips of tracks, and says how they are written.
func (o *options) decode(ctx context.Context, p *pipeline.Pipeline, tracks []pipeline.Track, at pipeline.Shape) (write func([]vision.Setting) error, err error) {
	if p.Clips() {
		clips, err := decodeClips(ctx, p, tracks, at)
		return func(s []vision.Setting) error { return o.writeClips(clips, s) }, err
	}
	images, err := decodeTracks(ctx, p, tracks, at)
	return func(s []vision.Setting) error { return o.writePicture(images, s) }, err
}

// predict prints the needed memory, and warns where there is less.
func (o *options) predict(r *report, p *pipeline.Pipeline, plan *plan, log io.Writer) error {
	path, err := isa.Choose()
	if err != nil {
		return err
	}
	machine.ResetPeak()
	before := int64(machine.PeakMiB()) << 20
	need, err := p.Need(pipeline.Work{At: plan.At, Guidance: plan.Guidance, Pictures: r.Pictures, Batch: plan.Batch, LoRA: o.lora, Sources: o.sourceSizes, Free: true}, cpu.NewDry(cpu.Options{Path: path}))
	if err != nil {
		return err
	}
	machine.ResetPeak()
	r.Memory.Need, r.Memory.Predicted = need, before+need.Peak()
	if free := int64(machine.Memory().Available); free > 0 && need.Peak() > free {
		fmt.Fprintf(log, "warning: about %s will be needed, and %s are free\n", console.Bytes(need.Peak()), console.Bytes(free))
	}
	return nil
}

func decodeTracks(ctx context.Context, p *pipeline.Pipeline, tracks []pipeline.Track, at pipeline.Shape) ([]*vision.Image, error) {
	var images []*vision.Image
	for _, t := range tracks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		raw, err := p.Decode(t.Final, at)
		if err != nil {
			return nil, err
		}
		m, err := vision.FromFloats(raw, at.Width, at.Height, vision.Signed, vision.ChannelsLast)
		if err != nil {
			return nil, err
		}
		images = append(images, m)
	}
	return images, nil
}

// decodeClips are the frames of each track.
func decodeClips(ctx context.Context, p *pipeline.Pipeline, tracks []pipeline.Track, at pipeline.Shape) ([][]*vision.Image, error) {
	clips := make([][]*vision.Image, len(tracks))
	for i, t := range tracks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		raw, err := p.Decode(t.Final, at)
		if err != nil {
			return nil, err
		}
		for each := len(raw) / at.Frames; len(raw) > 0; raw = raw[each:] {
			m, err := vision.FromFloats(raw[:each], at.Width, at.Height, vision.Signed, vision.ChannelsLast)
			if err != nil {
				return nil, err
			}
			clips[i] = append(clips[i], m)
		}
	}
	return clips, nil
}

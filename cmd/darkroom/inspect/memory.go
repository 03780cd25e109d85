package inspect

import (
	"fmt"
	"io"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// memoryNeed is the memory for sampling one picture of a pipeline's usual size, at most and in each phase, beside the
// program itself.
type memoryNeed struct {
	DType  string `json:"dtype"`
	Frames int    `json:"frames,omitempty"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Peak   int64  `json:"peak"`
	pipeline.Need
}

// pipelineMemory predicts without reading a weight. Pipelines that cannot be sampled have no prediction; the reason
// is given where they are sampled.
func pipelineMemory(path string) []memoryNeed {
	best, err := isa.Choose()
	if err != nil {
		return nil
	}
	var all []memoryNeed
	for _, precision := range []pipeline.Precision{pipeline.BF16, pipeline.F32} {
		counter := cpu.NewDry(cpu.Options{Path: best})
		p, err := pipeline.Open(path, pipeline.Options{Pool: tensor.NewPool(counter), Precision: precision})
		if err != nil {
			return nil
		}
		d := p.Defaults()
		at, err := p.Shape(d.Height, d.Width)
		if p.Clips() {
			at, err = p.ClipShape(d.Frames, d.Height, d.Width)
		}
		if err != nil || at.Height*at.Width > 1<<22 || at.Pixels() > 1<<25 { // the host's half of larger ones is made
			return nil
		}
		guidance := pipeline.Guidance{Scale: d.Guidance}
		if p.Experts() > 1 {
			guidance.Second = d.Guidance
		}
		if d.Embedded {
			guidance = pipeline.Guidance{Embedded: d.Guidance}
		}
		need, err := p.Need(pipeline.Work{At: at, Guidance: guidance, Pictures: 1, Free: true}, counter)
		if err != nil {
			return nil
		}
		all = append(all, memoryNeed{precision.String(), at.Frames, at.Width, at.Height, need.Peak(), need})
	}
	return all
}

// writeMemory prints predictions.
func (in *Document) writeMemory(w io.Writer) {
	if len(in.Memory) == 0 {
		return
	}
	m := in.Memory[0]
	kind := "a picture"
	if m.Frames > 0 {
		kind = fmt.Sprintf("a clip of %d frames", m.Frames)
	}
	fmt.Fprintf(w, "\nmemory to sample %s of %d x %d, predicted\n", kind, m.Width, m.Height)
	t := console.Table{Header: []string{"DTYPE", ">TEXTS", ">SAMPLING", ">DECODING", ">AT MOST"}}
	for _, m := range in.Memory {
		t.Add(m.DType, console.Bytes(m.Texts), console.Bytes(m.Sampling), console.Bytes(m.Decoding), console.Bytes(m.Peak))
	}
	t.Write(w)
}

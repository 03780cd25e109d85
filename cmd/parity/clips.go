package main

import (
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/video/dit"
)

// Networks over clips: cases have [B, C, T, H, W], the engine [B, T, H, W, C].

var clipOps = map[string]Op{
	"models.wan_transformer": wanTransformer,
}

// clip is an input that the case has as NCTHW.
func (n *network) clip(name string) *autograd.Value {
	return n.input(name, framesFirst(n.Array(name)), true)
}

// framesFirst takes NCTHW to NTHWC.
func framesFirst(a Array) Array {
	b, c, t, h, w := a.Shape[0], a.Shape[1], a.Shape[2], a.Shape[3], a.Shape[4]
	out := moveAxes(Array{Shape: []int{b, c, t, h * w}, Data: a.Data}, 0, 2, 3, 1)
	out.Shape = []int{b, t, h, w, c}
	return out
}

// channelsBeforeFrames takes NTHWC to NCTHW.
func channelsBeforeFrames(a Array) Array {
	b, t, h, w, c := a.Shape[0], a.Shape[1], a.Shape[2], a.Shape[3], a.Shape[4]
	out := moveAxes(Array{Shape: []int{b, t, h * w, c}, Data: a.Data}, 0, 3, 1, 2)
	out.Shape = []int{b, c, t, h, w}
	return out
}

func wanTransformer(c *Case) {
	config := must(dit.ReadConfig(c.Dir()))
	runNetwork(c, c.Dir(), func(n *network) {
		m := dit.New(n.params, config)
		check(n.params.Check())
		n.wan(m)
	})
}

// wan runs the transformer at the case's inputs.
func (n *network) wan(m *dit.Model) {
	in := dit.Inputs{Latents: n.clip("in.hidden_states"), Text: n.value("in.encoder_hidden_states")}
	if m.Image > 0 {
		in.Picture = n.value("in.encoder_hidden_states_image")
	}

	in.Time = framesTimes(n.Array("in.timestep"), in.Latents.Dim(1))
	n.outPicture("out.sample", m.Forward(n.tape, in))
}

// framesTimes are times of the tokens of frames, [B, tokens], as one a frame; times of samples are as
// they are.
func framesTimes(a Array, frames int) []float32 {
	if len(a.Shape) < 2 {
		return to[float32](a.Data)
	}
	each := a.Shape[1] / frames
	var times []float32
	for i := 0; i < len(a.Data); i += each {
		for _, t := range a.Data[i : i+each] {
			if t != a.Data[i] {
				failf("tokens of one frame have the times %v and %v", a.Data[i], t)
			}
		}
		times = append(times, float32(a.Data[i]))
	}
	return times
}

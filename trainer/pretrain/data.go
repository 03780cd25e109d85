package pretrain

import (
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// dataset is the scenes of a recipe, each a function of its number.
type dataset struct {
	Data
	key   rng.Key
	mix   scenes.Mix
	plain float64 // share of captions without their background
}

func (r *Pipeline) dataset() dataset {
	return dataset{Data: r.Data, key: rng.New(r.Seed), mix: r.Data.Mix()}
}

// during is the data of a phase, whose pictures are others.
func (d dataset) during(n int, p Phase) dataset {
	d.key = d.key.With("phase").Iteration(n)
	rest := d.mix.One + d.mix.Relation + d.mix.Count
	d.mix.Word = rest * p.Word / max(1-p.Word, 1e-6)
	d.plain = p.Plain
	return d
}

// scene is the scene of picture i. Captions that are kept for evaluation are drawn again.
func (d dataset) scene(i int) scenes.Scene {
	for try := 0; ; try++ {
		s := scenes.Random(d.key.With("scene").Sample(i).Attempt(try).Draw(), d.mix)
		if d.HeldOut || !scenes.HeldOut(s.Prompt) {
			return s
		}
	}
}

// heldOut is caption i of those that are kept.
func (d dataset) heldOut(i int) scenes.Scene {
	for try := 0; ; try++ {
		if s := scenes.Random(d.key.With("held out").Sample(i).Attempt(try).Draw(), d.mix); scenes.HeldOut(s.Prompt) {
			return s
		}
	}
}

// picture is picture i, as numbers between -1 and 1 written to dst.
func (d dataset) picture(i int, dst []float32) {
	toFloats(d.scene(i).Draw(scenes.Jitter(d.key.With("jitter").Sample(i).Draw())), dst)
}

// caption is the caption of picture i at some epoch: sometimes wrong, sometimes nothing.
func (d dataset) caption(i, epoch int) string {
	r := d.key.With("caption").Iteration(epoch).Sample(i).Draw()
	if r.Float64() < d.Drop {
		return ""
	}
	prompt := d.scene(i).Prompt
	// A wrong caption stays wrong over the epochs, as in a collection.
	if wrong := d.key.With("caption noise").Sample(i).Draw(); wrong.Float64() < d.Noise {
		prompt = scenes.Corrupt(prompt, wrong)
	}
	if r.Float64() < d.plain {
		prompt = prompt[:strings.LastIndex(prompt, " on ")]
	}
	return prompt
}

const pixels = scenes.Size * scenes.Size * 3

// toFloats puts bytes between -1 and 1.
func toFloats(px []uint8, dst []float32) {
	for i, v := range px {
		dst[i] = float32(v)/127.5 - 1
	}
}

// toBytes is the way back, clamped and rounded.
func toBytes(x []float32) []uint8 {
	px := make([]uint8, len(x))
	for i, v := range x {
		px[i] = uint8(min(max((v+1)*127.5, 0), 255) + 0.5)
	}
	return px
}

// order is which pictures the steps of a stage see, as endless shuffled epochs.
type order struct {
	key   rng.Key
	n     int
	epoch int
	perm  []int
}

// at is picture number i of the sequence, and its epoch.
func (o *order) at(i int) (picture, epoch int) {
	epoch = i / o.n
	if o.perm == nil || epoch != o.epoch {
		o.epoch, o.perm = epoch, o.key.Iteration(epoch).Draw().Perm(o.n)
	}
	return o.perm[i%o.n], epoch
}

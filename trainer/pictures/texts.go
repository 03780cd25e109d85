package pictures

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// The network's inputs from prompts. A prompt is encoded when it is first drawn, together with some that will be
// drawn soon, and lies on the disk from then on: the number of prompts changes neither the time until a run begins
// nor its memory.
//
// Invariants (tests): a list of any length is opened without encoding it; the memory is bounded; texts that were
// forgotten come back with the same bits.

const (
	// sharedOnDisk is the part of the folder of texts that is encoded in one go.
	sharedOnDisk = 4
	// mostRemembered bounds the texts in memory beside those of the pictures under way, in bytes.
	mostRemembered = 256 << 20
	// keptEncoders is how large encoders may be, on the disk, that stay in memory between prompts.
	keptEncoders = 512 << 20
)

// beginTexts makes sure that texts can be encoded, with those that every picture may need, and says how many
// prompts are rolled at once.
func (m *Model) beginTexts(e *experiment.Experiment) error {
	first, err := m.sources.given(0)
	if err != nil {
		return err
	}
	texts, err := m.Pipeline.EncodeWith(first, plain(e)...)
	if err != nil {
		return err
	}
	m.prompts = int(max(1, mostRemembered/max(1, 2*texts[0].Bytes()+m.sources.bytesOf(0))))
	m.onDisk = int(max(1, pipeline.UsualCacheLimit/sharedOnDisk/max(1, 2*texts[0].Bytes())))
	return nil
}

// plain are the texts beside prompts: those that guidance leads away from.
func plain(e *experiment.Experiment) []string {
	all := []string{""}
	for _, at := range e.EachStage() {
		all = append(all, at.Sampler.Negative)
	}
	return all
}

// texts are Policy.Texts of p, where prompts that name no negative text have this one.
func (m *Model) texts(p *Policy, otherwise string) func(prompts []int) (texts, negatives []*pipeline.Text, err error) {
	return func(prompts []int) (texts, negatives []*pipeline.Text, err error) {
		all, err := m.abouts(prompts, otherwise)
		if err != nil {
			return nil, nil, err
		}
		if err := m.lookAhead(p, prompts, all, otherwise); err != nil {
			return nil, nil, err
		}
		if m.Pipeline.Remembered() > mostRemembered {
			m.Pipeline.Forget(slices.Concat(all, m.always)...)
		}
		found, err := m.Pipeline.EncodeUntil(p.context(), all...)
		if err != nil {
			return nil, nil, err
		}
		for i := 0; i < len(found); i += 2 {
			texts, negatives = append(texts, found[i]), append(negatives, found[i+1])
		}
		return texts, negatives, nil
	}
}

// disturbed is a text whose states have noise (after CADS; Sadat et al., 2024, "Unleashing the Diversity of Diffusion
// Models through Condition-Annealed Sampling"): samples of a prompt then differ also where the network is sure of it.
// Padding, whose states are zeros, has none.
func disturbed(t *pipeline.Text, strength float64, key rng.Key) *pipeline.Text {
	other := *t
	other.States = withNoise(t.States, strength, key.With("states"))
	other.Pooled = withNoise(t.Pooled, strength, key.With("pooled"))
	return &other
}

// withNoise adds noise to the numbers that are not zeros.
func withNoise(x []float32, strength float64, key rng.Key) []float32 {
	if x == nil {
		return nil
	}
	squares, n := 0.0, 0
	for _, v := range x {
		if v != 0 {
			squares, n = squares+float64(float64(v)*float64(v)), n+1
		}
	}
	noise := make([]float32, len(x))
	key.Normal(noise, 0)
	deviation := float32(strength * math.Sqrt(squares/float64(max(n, 1))))
	for i, v := range x {
		if noise[i] = v + float32(deviation*noise[i]); v == 0 {
			noise[i] = 0
		}
	}
	return noise
}

// abouts are the texts of prompts, each followed by the text that guidance leads away from. Pictures come beside them
// where an encoder sees these.
func (m *Model) abouts(prompts []int, otherwise string) ([]pipeline.About, error) {
	all := make([]pipeline.About, 0, 2*len(prompts))
	for _, n := range prompts {
		prompt, about := m.asked.Prompt(n), pipeline.About{}
		if m.Pipeline.SeesPictures() {
			var err error
			if about.Given, err = m.sources.given(n); err != nil {
				return nil, err
			}
		}
		negative := about
		if about.Prompt, negative.Prompt = prompt.Text, otherwise; prompt.Negative != nil {
			negative.Prompt = *prompt.Negative
		}
		all = append(all, about, negative)
	}
	return all, nil
}

// ready is Policy.Ready: where encoders have to be loaded for a prompt, those of the whole roll are encoded to the
// disk, and prompts of the next iterations with them. Encoders that see pictures read a portion at once: pictures lie
// in memory.
func (m *Model) ready(p *Policy, otherwise string) func(prompts []int) error {
	return func(prompts []int) error {
		if m.Pipeline.Memory.KeepEncoders || m.Pipeline.Cache.Dir == "" || m.Pipeline.SeesPictures() {
			return nil
		}
		all, err := m.abouts(prompts, otherwise)
		if err != nil || !m.lacks(all) {
			return err
		}
		if m.asked.Ahead != nil {
			ahead := m.asked.Ahead()
			ahead = ahead[:max(0, min(len(ahead), m.onDisk-len(prompts)))]
			if all, err = m.abouts(distinct(slices.Concat(prompts, ahead)), otherwise); err != nil {
				return err
			}
		}
		for some := range slices.Chunk(all, 2*m.onDisk) {
			if err := m.Pipeline.EncodeToDisk(p.context(), some...); err != nil {
				return err
			}
		}
		return nil
	}
}

// lacks reports whether one of the texts is not at hand.
func (m *Model) lacks(all []pipeline.About) bool {
	return slices.ContainsFunc(all, func(a pipeline.About) bool { return !m.Pipeline.Knows(a) })
}

// lookAhead encodes prompts of the next iterations into memory, as many as have room there, where encoders have to be
// loaded for one of all anyway.
func (m *Model) lookAhead(p *Policy, prompts []int, all []pipeline.About, otherwise string) error {
	if m.Pipeline.Memory.KeepEncoders || m.asked.Ahead == nil || !m.lacks(all) {
		return nil
	}
	ahead := m.asked.Ahead()
	further, err := m.abouts(ahead[:max(0, min(len(ahead), m.prompts-len(distinct(prompts))))], otherwise)
	if err == nil {
		_, err = m.Pipeline.EncodeUntil(p.context(), slices.Concat(all, further)...)
	}
	return err
}

// distinct are the numbers of a list, each once, in their order.
func distinct(list []int) (all []int) {
	seen := make(map[int]bool, len(list))
	for _, n := range list {
		if !seen[n] {
			seen[n] = true
			all = append(all, n)
		}
	}
	return all
}

// portions are the places of keys of at most `most` prompts at once, in their order; 0: of all.
func portions(keys []trainer.Key, most int) (all [][2]int) {
	from, seen := 0, map[int]bool{}
	for i, k := range keys {
		if most > 0 && !seen[k.Prompt] && len(seen) == most {
			all = append(all, [2]int{from, i})
			from = i
			clear(seen)
		}
		seen[k.Prompt] = true
	}
	return append(all, [2]int{from, len(keys)})
}

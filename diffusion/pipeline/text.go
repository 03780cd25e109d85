package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// texts is the text encoders, and encoded texts.
type texts struct {
	*loader
	spec        textSpec
	encoders    []*encoder
	needsSource bool // pictures are made of pictures alone
	known       map[textKey]*Text
	cache       *cache
	fingerprint string // identifies the inputs of texts, for the cache
}

// Text is a network's input from a prompt.
type Text struct {
	Prompt        string
	IDs           [][]int32 // the tokens of each encoder
	Cut           []string  // the ends that were too long for them
	Tokens, Width int
	States        []float32 // [Tokens, Width]
	Pooled        []float32 // nil where the network reads none
}

// About is a text, and the pictures that it is about; nil: none.
type About struct {
	Prompt string
	Given  *Given
}

// abouts are texts about the same pictures.
func abouts(g *Given, prompts []string) []About {
	all := make([]About, len(prompts))
	for i, prompt := range prompts {
		all[i] = About{prompt, g}
	}
	return all
}

// Encode is the texts of prompts, each computed once until it is forgotten, or found in
// Options.Cache. The encoders are loaded one after another.
func (x *texts) Encode(prompts ...string) ([]*Text, error) { return x.EncodeWith(nil, prompts...) }

// EncodeWith is the texts of prompts about pictures, which some text encoders see; others' texts are
// those of Encode. No pictures: nil.
func (x *texts) EncodeWith(g *Given, prompts ...string) ([]*Text, error) {
	return x.EncodeUntil(context.Background(), abouts(g, prompts)...)
}

// EncodeUntil is the texts of prompts, each about pictures of its own, until ctx ends.
func (x *texts) EncodeUntil(ctx context.Context, all ...About) ([]*Text, error) {
	if x.MustSee() && slices.ContainsFunc(all, func(a About) bool { return a.Given == nil }) {
		return nil, fmt.Errorf("the text encoder of a %s sees the pictures that a prompt is about: give one", x.folder.class)
	}
	fresh, err := x.recall(x.fresh(all))
	if err != nil {
		return nil, err
	}
	if len(fresh) > 0 {
		if err := x.compute(ctx, fresh); err != nil {
			return nil, err
		}
	}
	texts := make([]*Text, len(all))
	for i, a := range all {
		texts[i] = x.known[x.key(a)]
	}
	return texts, nil
}

// textKey names a text: a prompt, and the pictures that were seen with it; of one encoder's output for it, that
// encoder's place, from 1.
type textKey struct {
	prompt, pictures string
	encoder          int
}

// key is a text's. Where no encoder sees pictures, texts about any are one.
func (x *texts) key(a About) textKey {
	if a.Given == nil || !x.SeesPictures() {
		return textKey{prompt: a.Prompt}
	}
	return textKey{prompt: a.Prompt, pictures: a.Given.mark}
}

// MustSee reports whether a text encoder reads no prompt without the pictures that it is about.
func (x *texts) MustSee() bool { return x.SeesPictures() && x.needsSource }

// SeesPictures reports whether a text encoder sees the pictures that a prompt is about.
func (x *texts) SeesPictures() bool {
	return x.eyes() != nil
}

// eyes prepares pictures for the text encoder that sees them; nil: none does.
func (x *texts) eyes() (last *vlm.Processor) {
	for _, e := range x.encoders {
		if e.eyes != nil {
			last = e.eyes
		}
	}
	return last
}

// ReadsLength reports whether Options.TextLength means something: a T5 encoder reads texts, zeros replace its output,
// or a language model reads prompts without pictures, which are never cut.
func (x *texts) ReadsLength() bool {
	return x.spec.zeros || slices.ContainsFunc(x.encoders, func(e *encoder) bool {
		return e.ofT5() || e.kind == promptStates && e.form.picture == nil
	})
}

// ReadsLayers reports whether Options.TextLayers means something.
func (x *texts) ReadsLayers() bool {
	return slices.ContainsFunc(x.encoders, func(e *encoder) bool { return len(e.form.chosen) > 0 })
}

// fresh are the texts that were not encoded yet, each once, in their order.
func (x *texts) fresh(of []About) (all []About) {
	seen := make(map[textKey]bool, len(of))
	for _, a := range of {
		if key := x.key(a); x.known[key] == nil && !seen[key] {
			seen[key] = true
			all = append(all, a)
		}
	}
	return all
}

// Bytes is a text's size in memory.
func (t *Text) Bytes() int64 { return 4 * int64(len(t.States)+len(t.Pooled)) }

// Remembered is the size in memory of all texts that were not forgotten.
func (x *texts) Remembered() (bytes int64) {
	for _, t := range x.known {
		bytes += t.Bytes()
	}
	return bytes
}

// Forget drops all texts but some. Those in Options.Cache are found there again; others are computed again.
func (x *texts) Forget(but ...About) {
	kept := map[textKey]*Text{}
	for _, a := range but {
		key := x.key(a)
		if t := x.known[key]; t != nil {
			kept[key] = t
		}
	}
	x.known = kept
}

// Knows reports whether a text is at hand, in memory or on the disk.
func (x *texts) Knows(a About) bool {
	key := x.key(a)
	return x.known[key] != nil || x.stored(key)
}

// compute runs the encoders, and remembers.
func (x *texts) compute(ctx context.Context, of []About) error {
	said := make([][]encoded, len(of))
	for _, e := range x.encoders {
		err := x.encode(ctx, e, of, func(i int, s encoded) error {
			said[i] = append(said[i], s)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for i, a := range of {
		text, err := x.textOf(a, said[i])
		if err != nil {
			return err
		}
		x.known[x.key(a)] = text
		if err := x.remember(text, x.key(a)); err != nil {
			return err
		}
	}
	return nil
}

// textOf joins the encoders' states of a text.
func (x *texts) textOf(a About, said []encoded) (*Text, error) {
	text, err := x.spec.join(said)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.folder.dir, err)
	}
	if a.Prompt == "" && x.spec.emptyIsZero {
		clear(text.States)
		clear(text.Pooled)
	}
	text.Prompt = a.Prompt
	for _, s := range said {
		text.IDs, text.Cut = append(text.IDs, s.ids), append(text.Cut, s.cut)
	}
	return text, nil
}

// longText is a text of the usual length: where texts have lengths of their own, of a long prompt.
func (x *texts) longText(given *Given) (*Text, error) {
	prompt := ""
	if x.spec.ragged {
		prompt = strings.Repeat("a picture of it ", usualWords/4)
	}
	texts, err := x.EncodeWith(given, prompt)
	if err != nil {
		return nil, err
	}
	return texts[0], nil
}

// usualWords are more than most prompts have; a longer one takes little more.
const usualWords = 256

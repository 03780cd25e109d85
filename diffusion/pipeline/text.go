package pipeline

import (
	"context"
	"fmt"
	"slices"
)

// Text is what a network reads of a prompt.
type Text struct {
	Prompt        string
	IDs           [][]int32 // what each encoder read
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
func (p *Pipeline) Encode(prompts ...string) ([]*Text, error) { return p.EncodeWith(nil, prompts...) }

// EncodeWith is the texts of prompts about pictures, which text encoders that have eyes see; others' texts are
// those of Encode. No pictures: nil.
func (p *Pipeline) EncodeWith(g *Given, prompts ...string) ([]*Text, error) {
	return p.EncodeUntil(context.Background(), abouts(g, prompts)...)
}

// EncodeUntil is the texts of prompts, each about pictures of its own, until ctx ends.
func (p *Pipeline) EncodeUntil(ctx context.Context, all ...About) ([]*Text, error) {
	if p.MustSee() && slices.ContainsFunc(all, func(a About) bool { return a.Given == nil }) {
		return nil, fmt.Errorf("the text encoder of a %s sees the pictures that a prompt is about: give one", p.folder.class)
	}
	fresh, err := p.recall(p.fresh(all))
	if err != nil {
		return nil, err
	}
	if len(fresh) > 0 {
		if err := p.compute(ctx, fresh); err != nil {
			return nil, err
		}
	}
	texts := make([]*Text, len(all))
	for i, a := range all {
		texts[i] = p.texts[p.key(a)]
	}
	return texts, nil
}

// textKey names a text: a prompt, and the pictures that were seen with it; of what one encoder said of it, that one's
// place, from 1.
type textKey struct {
	prompt, pictures string
	encoder          int
}

// key is a text's. Where no encoder sees pictures, texts about any are one.
func (p *Pipeline) key(a About) textKey {
	if a.Given == nil || !p.SeesPictures() {
		return textKey{prompt: a.Prompt}
	}
	return textKey{prompt: a.Prompt, pictures: a.Given.mark}
}

// MustSee reports whether a text encoder reads no prompt without the pictures that it is about.
func (p *Pipeline) MustSee() bool { return p.SeesPictures() && p.family.pictures.sources.must }

// SeesPictures reports whether a text encoder sees the pictures that a prompt is about.
func (p *Pipeline) SeesPictures() bool {
	for _, e := range p.encoders {
		if e.eyes != nil {
			return true
		}
	}
	return false
}

// fresh are the texts that were not encoded yet, each once, in their order.
func (p *Pipeline) fresh(of []About) (all []About) {
	seen := make(map[textKey]bool, len(of))
	for _, a := range of {
		if key := p.key(a); p.texts[key] == nil && !seen[key] {
			seen[key] = true
			all = append(all, a)
		}
	}
	return all
}

// Bytes is what a text takes in memory.
func (t *Text) Bytes() int64 { return 4 * int64(len(t.States)+len(t.Pooled)) }

// Remembered is what all texts that were not forgotten take in memory.
func (p *Pipeline) Remembered() (bytes int64) {
	for _, t := range p.texts {
		bytes += t.Bytes()
	}
	return bytes
}

// Forget drops all texts but some. Those in Options.Cache are found there again; others are computed again.
func (p *Pipeline) Forget(but ...About) {
	kept := map[textKey]*Text{}
	for _, a := range but {
		key := p.key(a)
		if t := p.texts[key]; t != nil {
			kept[key] = t
		}
	}
	p.texts = kept
}

// Knows reports whether a text is at hand, in memory or on the disk.
func (p *Pipeline) Knows(a About) bool {
	key := p.key(a)
	return p.texts[key] != nil || p.stored(key)
}

// compute runs the encoders, and remembers.
func (p *Pipeline) compute(ctx context.Context, of []About) error {
	said := make([][]encoded, len(of))
	for _, e := range p.encoders {
		err := p.encode(ctx, e, of, func(i int, s encoded) error {
			said[i] = append(said[i], s)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for i, a := range of {
		text, err := p.textOf(a, said[i])
		if err != nil {
			return err
		}
		p.texts[p.key(a)] = text
		if err := p.remember(text, p.key(a)); err != nil {
			return err
		}
	}
	return nil
}

// textOf joins what the encoders said of a text.
func (p *Pipeline) textOf(a About, said []encoded) (*Text, error) {
	text, err := p.family.text.join(said)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.folder.dir, err)
	}
	if a.Prompt == "" && p.family.text.emptyIsZero {
		clear(text.States)
		clear(text.Pooled)
	}
	text.Prompt = a.Prompt
	for _, s := range said {
		text.IDs, text.Cut = append(text.IDs, s.ids), append(text.Cut, s.cut)
	}
	return text, nil
}

package pipeline

import (
	"context"
	"fmt"
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

// Encode is the texts of prompts, each computed once until it is forgotten, or found in
// Options.Cache. The encoders are loaded one after another.
func (p *Pipeline) Encode(prompts ...string) ([]*Text, error) { return p.EncodeWith(nil, prompts...) }

// EncodeUntil is Encode until ctx ends.
func (p *Pipeline) EncodeUntil(ctx context.Context, prompts ...string) ([]*Text, error) {
	return p.encodeUntil(ctx, nil, prompts)
}

// EncodeWith is the texts of prompts about pictures, which text encoders that have eyes see; others' texts are
// those of Encode. No pictures: nil.
func (p *Pipeline) EncodeWith(g *Given, prompts ...string) ([]*Text, error) {
	return p.encodeUntil(context.Background(), g, prompts)
}

func (p *Pipeline) encodeUntil(ctx context.Context, g *Given, prompts []string) ([]*Text, error) {
	if !p.seesPictures() {
		g = nil
	}
	if must := p.family.sources; p.seesPictures() && must.must && g == nil {
		return nil, fmt.Errorf("the text encoder of a %s sees the pictures that a prompt is about: give one", p.folder.class)
	}
	fresh, err := p.recall(p.fresh(prompts, g), g)
	if err != nil {
		return nil, err
	}
	if len(fresh) > 0 {
		if err := p.compute(ctx, fresh, g); err != nil {
			return nil, err
		}
	}
	texts := make([]*Text, len(prompts))
	for i, prompt := range prompts {
		texts[i] = p.texts[g.key(prompt)]
	}
	return texts, nil
}

// textKey names a text: a prompt, and the pictures that were seen with it.
type textKey struct{ prompt, pictures string }

func (g *Given) key(prompt string) textKey {
	if g == nil {
		return textKey{prompt: prompt}
	}
	return textKey{prompt, g.mark}
}

// seesPictures reports whether a text encoder sees the pictures that a prompt is about.
func (p *Pipeline) seesPictures() bool {
	for _, e := range p.encoders {
		if e.eyes != nil {
			return true
		}
	}
	return false
}

// fresh are the prompts that were not encoded yet, each once, in their order.
func (p *Pipeline) fresh(prompts []string, g *Given) (all []string) {
	seen := make(map[string]bool, len(prompts))
	for _, prompt := range prompts {
		if p.texts[g.key(prompt)] == nil && !seen[prompt] {
			seen[prompt] = true
			all = append(all, prompt)
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

// Forget drops the texts of all prompts but some. Those in Options.Cache are found there again; others are
// computed again.
func (p *Pipeline) Forget(but ...string) {
	kept := map[textKey]*Text{}
	for _, prompt := range but {
		key := textKey{prompt: prompt}
		if t := p.texts[key]; t != nil {
			kept[key] = t
		}
	}
	p.texts = kept
}

// Knows reports whether a prompt's text is at hand, in memory or on the disk.
func (p *Pipeline) Knows(prompt string) bool {
	return p.texts[textKey{prompt: prompt}] != nil || p.stored(prompt)
}

// compute runs the encoders, and remembers.
func (p *Pipeline) compute(ctx context.Context, prompts []string, g *Given) error {
	said := make([][]encoded, len(prompts))
	for _, e := range p.encoders {
		all, err := p.encode(ctx, e, prompts, g)
		if err != nil {
			return err
		}
		for i, s := range all {
			said[i] = append(said[i], s)
		}
		if !p.KeepEncoders {
			if err := e.free(); err != nil {
				return err
			}
			p.Pool.Trim()
		}
	}
	for i, prompt := range prompts {
		text, err := p.family.join(said[i])
		if err != nil {
			return fmt.Errorf("%s: %w", p.folder.dir, err)
		}
		if prompt == "" && p.family.emptyIsZero {
			clear(text.States)
			clear(text.Pooled)
		}
		text.Prompt = prompt
		for _, s := range said[i] {
			text.IDs, text.Cut = append(text.IDs, s.ids), append(text.Cut, s.cut)
		}
		p.texts[g.key(prompt)] = text
		if err := p.remember(text, g); err != nil && !p.CacheIfCan {
			return err
		} else if err != nil {
			p.Cache = ""
		}
	}
	return nil
}

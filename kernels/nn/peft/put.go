package peft

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Pairs are the adapter's pairs as a model takes them: one entry for each rank and alpha, with its layers.
func (a *Adapter) Pairs() ([]nn.LoRA, error) {
	groups := map[kind][]string{}
	var order []kind
	for _, m := range a.modules() {
		k, err := a.kindOf(m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.path, err)
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], regexp.QuoteMeta(m))
	}
	var all []nn.LoRA
	for _, k := range order {
		all = append(all, nn.LoRA{Rank: k.rank, Alpha: float32(k.alpha), RSLoRA: a.settings.RSLoRA, Dropout: float32(a.settings.Dropout), Pattern: strings.Join(groups[k], "|")})
	}
	return all, nil
}

// Put puts pairs on a model. They are one adapter.
func Put(p *nn.Params, pairs []nn.LoRA) (*nn.Adapters, error) {
	var set *nn.Adapters
	for _, l := range pairs {
		s, err := p.AddLoRA(l)
		if err != nil {
			return nil, err
		}
		if set == nil {
			set = s
		} else {
			set.Join(s)
		}
	}
	return set, nil
}

// AddTo puts the adapter on a model and loads it. Every pair of the file must find its layer.
func (a *Adapter) AddTo(p *nn.Params) (*nn.Adapters, error) {
	layers := p.Layers()
	for _, m := range a.modules() {
		if !slices.Contains(layers, m) {
			return nil, fmt.Errorf("%s: %s: the model has no such layer", a.path, m)
		}
	}
	pairs, err := a.Pairs()
	if err != nil {
		return nil, err
	}
	set, err := Put(p, pairs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.path, err)
	}
	if err := set.Load(a, ""); err != nil {
		return nil, fmt.Errorf("%s: %w", a.path, err)
	}
	return set, nil
}

// NoDropout leaves the file's dropout out.
func (a *Adapter) NoDropout() { a.settings.Dropout = 0 }

// Settings say every layer's rank and alpha: those of most layers, and a pattern for each of the others.
func (a *Adapter) Settings() (Settings, error) {
	_, s, err := a.whole("")
	return s, err
}

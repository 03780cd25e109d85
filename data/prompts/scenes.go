package prompts

import (
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision/scenes"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// The embedded lists: different captions of scenes, drawn once and for all. HeldOut splits them.
var embedded = map[string]func() []Prompt{
	"embed:scenes":                 func() []Prompt { return captions(240, false) },
	"embed:scenes-heldout":         func() []Prompt { return captions(48, true) },
	"embed:zoom":                   func() []Prompt { return questions(0, 480) },
	"embed:zoom-solved":            func() []Prompt { return solved(0, 480) },
	"embed:edits":                  func() []Prompt { return changed(0, 480, "make", "remove", "move") },
	"embed:edits-heldout":          func() []Prompt { return changed(heldOutEdits, 96, "make", "remove", "move") },
	"embed:edits-in-place":         func() []Prompt { return changed(0, 480, "make", "remove") },
	"embed:edits-in-place-heldout": func() []Prompt { return changed(heldOutEdits, 96, "make", "remove") },
	"embed:zoom-heldout":           func() []Prompt { return questions(10000, 160) },
	"embed:moving":                 func() []Prompt { return moves(false) },
	"embed:moving-heldout":         func() []Prompt { return moves(true) },
	"embed:animate":                func() []Prompt { return animated(3, false) },
	"embed:animate-heldout":        func() []Prompt { return animated(4, true) },
}

// mix has the words that are words: three letters that mean nothing tell little.
func mix() scenes.Mix {
	m := scenes.Everything
	m.Words = scenes.Words
	return m
}

func captions(n int, heldOut bool) []Prompt {
	draw := rng.New(77).With("captions").Draw()
	var list []Prompt
	seen := map[string]bool{}
	for len(list) < n {
		s := scenes.Random(draw, mix())
		if seen[s.Prompt] || scenes.HeldOut(s.Prompt) != heldOut {
			continue
		}
		seen[s.Prompt] = true
		list = append(list, Prompt{Text: s.Prompt})
	}
	return list
}

// moves are captions of moving scenes: all that are held out, or all others.
func moves(heldOut bool) (list []Prompt) {
	for _, s := range moving.All() {
		if moving.HeldOut(s.Prompt()) == heldOut {
			list = append(list, Prompt{Text: s.Prompt()})
		}
	}
	return list
}

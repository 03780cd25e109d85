package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// How large pictures are. Of all that may say it, the first counts:
//
//	a prompt's own width and height, [evaluate] width and height for held-out ones, [sampler] width and
//	height, [sampler] sizes, of which one is drawn for each prompt of an iteration, the model's folder

// A Size is a picture's width and height in pixels.
type Size [2]int

func (s Size) String() string { return fmt.Sprintf("%d x %d", s[0], s[1]) }

// Asked are the sizes that a turn's pictures may have, where their prompts name none; none: the model's.
func (t Turn) Asked() []Size {
	switch s, v := t.Sampler, t.Experiment.Evaluate; {
	case t.Evaluates && v.Width > 0:
		return []Size{{v.Width, v.Height}}
	case s.Width > 0:
		return []Size{{s.Width, s.Height}}
	default:
		return s.Sizes
	}
}

// Frames are a clip's that a turn makes; 0 and 1: it makes pictures.
func (t Turn) Frames() int {
	if n := t.Experiment.Evaluate.Frames; t.Evaluates && n > 0 {
		return n
	}
	return t.Sampler.Frames
}

// Makes is what the experiment's samples are, in training and in evaluations: "pictures", "clips" or "replies".
func (e *Experiment) Makes() (all []string) {
	if e.Episode != nil {
		return []string{"replies"}
	}
	for _, held := range []bool{false, true} {
		if held && e.Evaluate.Prompts == "" {
			continue
		}
		made := "pictures"
		if (Turn{Experiment: e, Evaluates: held}).Frames() > 1 {
			made = "clips"
		}
		if !slices.Contains(all, made) {
			all = append(all, made)
		}
	}
	return all
}

// checkClips: what cannot be learned from clips.
func (e *Experiment) checkClips(r report) {
	if !slices.Contains(e.Makes(), "clips") {
		return
	}
	switch {
	case !e.Kind().Has(loss.Advantages) && e.Kind().Steps == nil:
		r("sampler.frames|loss.objective", fmt.Sprintf("objective %q follows a reward's gradient, which rewards of clips do not give", e.Loss.Objective), "another objective, or frames = 1")
	case e.Rollout.Offline:
		r("sampler.frames|rollout.offline", "what is learned from offline is pictures", "leave offline out, or write frames = 1")
	}
}

// checkSizes: one way to say how large pictures are, and all of it.
func (s Sampler) checkSizes(r report) {
	if (s.Width == 0) != (s.Height == 0) {
		r("width|height", "a picture needs both a width and a height", "write both, or neither")
	}
	if s.Width > 0 && len(s.Sizes) > 0 {
		r("sizes|width", "pictures have one size by width and height, and several by sizes", "leave one of them out; in a stage, sizes = [] or width = 0 and height = 0 does")
	}
}

// Of is the turn for pictures of so many tokens, on which a dynamic schedule depends.
func (t Turn) Of(tokens int) (Turn, error) {
	if s := t.Sampler.Schedule; s.Kind != "dynamic" || s.Tokens > 0 || s.own == tokens {
		return t, nil
	}
	e := *t.Experiment
	e.Sampler.Schedule.own = tokens
	t.Experiment = &e
	var err error
	if t.Evaluates {
		t.Schedule, t.Rows, err = e.Evaluation()
	} else {
		t.Schedule, t.Rows, err = e.Sampler.rows(e.drawn(t.Window))
	}
	return t, err
}

// Show says how many tokens the first size of one of Turns has, for the plan's rows.
func (e *Experiment) Show(turn, tokens int) {
	if len(e.Stages) > 0 {
		e.Stages[turn].Sampler.Schedule.own = tokens
	}
	if turn == 0 {
		e.Sampler.Schedule.own = tokens
	}
}

// sizeWords say how large pictures are, for the plan; "": as the model's folder says.
func (e *Experiment) sizeWords() string {
	words := func(all []Size) string {
		var said []string
		for _, s := range all {
			said = append(said, s.String())
		}
		if len(said) > 1 {
			return "for each prompt one of " + strings.Join(said, ", ")
		}
		return strings.Join(said, "")
	}
	of := func(t Turn) string {
		said := words(t.Asked())
		if n := t.Frames(); n > 1 {
			said = strings.TrimSuffix(fmt.Sprintf("%d frames, %s", n, said), ", ")
		}
		return said
	}
	trained, held := of(Turn{Experiment: e}), of(Turn{Experiment: e, Evaluates: true})
	switch {
	case e.Evaluate.Prompts == "" || held == trained:
		return trained
	case trained == "":
		return "as the model's folder says; held out: " + held
	}
	return trained + "; held out: " + held
}

// Evaluating is how held-out samples are made, by a sampler.
func (e *Experiment) Evaluating(s Sampler) (Turn, error) {
	other := *e
	other.Sampler = s
	t := Turn{Experiment: &other, Evaluates: true}
	var err error
	t.Schedule, t.Rows, err = other.Evaluation()
	return t, err
}

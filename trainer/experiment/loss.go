package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Loss is [loss]: the options of package loss, each declared there beside the formula that reads it.
// The objective's name sets keys of this table, and the file may set them otherwise.
type Loss struct {
	Preset    string `toml:"preset" doc:"settings of a published system, for this table"`
	Objective string `toml:"objective" doc:"see darkroom list objectives"`
	loss.Options
}

func defaultLoss() Loss { return Loss{Objective: "clip", Options: loss.DefaultOptions()} }

// Tokens is the objective of a language model's tokens.
func (l Loss) Tokens() loss.TokenLoss { return l.Options.Tokens(l.Objective) }

// of is the objective's form for tokens, or for pictures; nothing where no objective has the name.
func (l Loss) of(tokens bool) loss.Form {
	o, _ := loss.ObjectiveNamed(l.Objective)
	return o.Form(tokens)
}

// Kind is the objective's form for the experiment's modality.
func (e *Experiment) Kind() loss.Form { return e.Loss.of(e.Episode != nil) }

// objectiveWords describe the minimised loss.
func (e *Experiment) objectiveWords() string {
	l, o := e.Loss, e.Kind()
	s := l.Objective
	if o.Words != nil {
		s += o.Words(l.Options)
	}
	if o.OfFinished() && !(e.follows() && l.Gradient.Through != "direct") {
		s += ", " + count(l.Times, "time") + " of each sample"
		switch l.Draw {
		case "permutation":
			s += ", none of them twice"
		case "uniform":
			s += fmt.Sprintf(", drawn evenly, shift %v", l.Shift)
		case "logit_normal":
			s += fmt.Sprintf(", drawn by a logit-normal of %v ± %v, shift %v", l.Mean, l.Spread, l.Shift)
		}
	}
	if l.NoiseWeight > 0 && e.Episode == nil && o.Has(loss.BareRatio) {
		s += fmt.Sprintf(", advantages times %v of the step's deviation", l.NoiseWeight)
	}
	if l.Rectify {
		s += ", decisions weighed by what their step keeps of the gradient"
	}
	if l.NoiseScale {
		s += ", losses weighed by the step's noise"
	}
	if e.Episode != nil && o.Learns != loss.JudgedAnswers {
		s += ", " + l.Mode
	}
	if p := l.Perception; p.On() && e.Episode != nil {
		s += fmt.Sprintf(", less %v of the distance from answers behind pictures with %v of their patches black", p.Weight, p.Share)
	}
	if i := l.Imitate; e.Imitates() {
		s += fmt.Sprintf(", and up to %v of it the likelihood of %d written answers of %s", i.Weight, i.Rows, e.Rollout.Lessons)
	}
	if c := l.Correction; c.On() {
		s += ", corrected by " + strings.Join(slices.DeleteFunc([]string{c.Weights, c.Reject}, func(x string) bool { return x == "" || x == "none" }), ", ")
	}
	k, to := l.KL, l.KL.Reference
	if k.Guidance > 0 {
		to += fmt.Sprintf(" with guidance %v", k.Guidance)
	}
	switch {
	case o.Learns == loss.JudgedAnswers:
		return s + "; the reference is " + map[string]string{"base": "the model as the run began", "stage": "the model as the stage began"}[k.Reference]
	case k.Weight == 0:
		s += "; no KL"
	case k.Estimator == "mean":
		s += fmt.Sprintf("; KL %v to %s, of means over %s", k.Weight, to, map[string]string{"published": "the published deviation", "deviation": "the step's deviation", "one": "1"}[k.Over])
	default:
		s += fmt.Sprintf("; KL %v to %s, %s", k.Weight, to, k.Estimator)
	}
	return s
}

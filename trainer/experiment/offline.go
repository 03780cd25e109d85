package experiment

import "fmt"

// checkOffline: what cannot be learned from pictures that were there before.
func (e *Experiment) checkOffline(r report) {
	if !e.Rollout.Offline {
		return
	}
	const offline = "rollout.offline"
	o, roll := e.Kind(), e.Rollout
	switch direct := e.follows() && e.Loss.Gradient.Through == "direct"; {
	case e.Episode != nil:
		r(offline, "conversations cannot be learned from offline yet", "leave it out")
	case !o.OfFinished() || e.follows() && !direct:
		r(offline+"|loss.objective", fmt.Sprintf("objective %q looks at how samples came about, and nobody knows that of pictures in files", e.Loss.Objective), `objective = "dpo" for pairs, "sft" or "rwr" for pictures`)
	case roll.Resample != nil || roll.Curriculum != nil || roll.Skip != nil || roll.Ban != nil || roll.Filter != nil || roll.Buffer != nil:
		r(offline, "prompts and samples are chosen by what the model makes of them, and here it makes nothing", "leave rollout.resample, curriculum, filter and buffer out")
	case e.Advantage.How != "rewards":
		r(offline+"|advantage.combine", "files say what a picture is worth in one number", `combine = "rewards"`)
	}
}

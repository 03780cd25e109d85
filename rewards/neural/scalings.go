package neural

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards"
)

// Card: one cosine of a picture and its prompt, many rewards under one name. With x the
// cosine, or the logit exp(logit_scale)·cosine:
//
//	cosine                    x          Flow-Factory's and Pref-GRPO's "clip", MixGRPO's, HPSv2 as published
//	logit                     logit      PickScore as published, a CLIPModel's logits_per_image
//	pickscore_flow_grpo       logit/26   also Flow-Factory, miles, verl-omni, UniRL
//	pickscore_mixgrpo         (logit - 18)/8
//	pickscore_pref_grpo       cosine
//	pickscore_srpo            logit/20
//	clip_nft                  logit/100  DiffusionNFT
//	clip_unirl                logit/30
//	clipscore_hessel          2.5 max(cosine, 0)   Hessel et al., 2021
//	clipscore_torchmetrics    max(100 cosine, 0)
//
// Where max takes the 0, the gradient is 0. Held to neural.score_scales and neural.clip.
type Scaling struct {
	Name           string
	Logit          bool // of the logit, not of the cosine
	Factor, Offset float64
	Floor          bool // not below 0
}

// Scalings are the published ones.
func Scalings() []Scaling {
	return []Scaling{
		{Name: "cosine", Factor: 1},
		{Name: "logit", Logit: true, Factor: 1},
		{Name: "pickscore_flow_grpo", Logit: true, Factor: 1. / 26},
		{Name: "pickscore_mixgrpo", Logit: true, Factor: 1. / 8, Offset: -18. / 8},
		{Name: "pickscore_pref_grpo", Factor: 1},
		{Name: "pickscore_srpo", Logit: true, Factor: 1. / 20},
		{Name: "clip_nft", Logit: true, Factor: 1. / 100},
		{Name: "clip_unirl", Logit: true, Factor: 1. / 30},
		{Name: "clipscore_hessel", Factor: 2.5, Floor: true},
		{Name: "clipscore_torchmetrics", Factor: 100, Floor: true},
	}
}

// ScalingNamed finds a scaling; "" is the cosine.
func ScalingNamed(name string) (Scaling, error) {
	if name == "" {
		name = "cosine"
	}
	var names []string
	for _, s := range Scalings() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scaling{}, fmt.Errorf("scaling %q is not known; there are %v", name, names)
}

// Card is the formula, as people write it.
func (s Scaling) Card() string {
	x := "cosine"
	if s.Logit {
		x = "exp(logit_scale) · cosine"
	}
	if s.Factor != 1 {
		x = fmt.Sprintf("%.4g · %s", s.Factor, x)
	}
	if s.Offset != 0 {
		x = fmt.Sprintf("%s %+.4g", x, s.Offset)
	}
	if s.Floor {
		x += ", not below 0"
	}
	return x
}

// Of is the reward and its derivative with respect to the cosine.
func (s Scaling) Of(cosine, scale float64) (value, slope float64) {
	slope = s.Factor
	if s.Logit {
		slope *= scale
	}
	value = float64(slope*cosine) + s.Offset
	if s.Floor && value <= 0 {
		return 0, 0
	}
	return value, slope
}

// ScalingKey is of rewards that are a cosine of picture and prompt.
type ScalingKey struct {
	Scaling string `toml:"scaling" doc:"what is made of the cosine of picture and prompt: darkroom list scalings; empty: as the reward's own project does"`
}

// Check refuses a scaling that there is not.
func (k ScalingKey) Check(report rewards.Report) {
	if _, err := ScalingNamed(k.Scaling); err != nil {
		report("scaling", fmt.Sprintf("no scaling is called %q", k.Scaling), "see darkroom list scalings")
	}
}

package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Which prompts are rolled, and which samples are learned from.

// Resample rolls further prompts until enough groups have signal: what [advantage.filter] keeps,
// or, without, groups whose totals differ.
type Resample struct {
	Rolls   int `toml:"rolls" range:"[2,1000]" doc:"of an iteration at most, the first one included"`
	Prompts int `toml:"prompts" range:"[0,1e6]" doc:"of a further roll; 0: as many as groups are lacking"`
}

// SetDefaults is how far one goes who says nothing: verl's recipes have ten.
func (r *Resample) SetDefaults() { *r = Resample{Rolls: 10} }

// Buffer keeps groups with signal for further iterations.
type Buffer struct {
	Iterations int `toml:"iterations" range:"[1,1e6]" doc:"that a group is kept for"`
	Groups     int `toml:"groups" range:"[1,1e6]" doc:"of earlier iterations that an iteration learns from beside its own"`
}

// SetDefaults is one old group, from no further back than four iterations.
func (b *Buffer) SetDefaults() { *b = Buffer{Iterations: 4, Groups: 1} }

// checkChoice: what is chosen of prompts and samples.
func (e *Experiment) checkChoice(r report) {
	e.checkLists(r)
	e.checkOffline(r)
	e.checkClips(r)
	e.checkTeacher(r)
	e.checkLessons(r)
	e.checkLag(r)
	o, roll := e.Kind(), e.Rollout
	switch {
	case roll.Resample != nil && e.Episode == nil && e.Advantage.Filter == nil && roll.Group == 1:
		r("rollout.resample", "a group of one sample always has signal", "a group of 2 or more, or [advantage.filter]")
	case roll.Buffer != nil && (e.Sampler.Tree != nil || e.Sampler.Flash != nil) && e.Episode == nil:
		r("rollout.buffer", "steps of a tree or before a compressed tail mean something else in another iteration", "leave it out")
	case roll.Buffer != nil && o.Learns == loss.RewardSlope:
		r("rollout.buffer", "a reward's gradient is taken where the network is now, and old samples have no part in it", "leave it out")
	}
	e.checkMore(r)
	if roll.Filter != nil {
		roll.Filter.Check(under("rollout.filter", r))
	}
	if roll.Skip == nil {
		return
	}
	roll.Skip.Check(under("rollout.skip", r))
	if roll.Curriculum != nil {
		r("rollout.skip|rollout.curriculum", "both say which prompts come next", "one of them")
	}
}

// checkMore: groups of different sizes.
func (e *Experiment) checkMore(r report) {
	const hint = "leave rollout.more out"
	switch m := e.Rollout.More; {
	case m == nil:
	case m.Most <= e.Rollout.Group:
		r("rollout.more.most", fmt.Sprintf("a group has %d samples already", e.Rollout.Group), "a number above rollout.group")
	case e.Rollout.Resample != nil:
		r("rollout.more|rollout.resample", "both say what is rolled again", "one of them")
	case e.Sampler.Tree != nil && e.Episode == nil:
		r("rollout.more|sampler.tree", "the samples of a prompt are the leaves of a tree", hint)
	case e.Episode != nil && e.Episode.Noisy != nil:
		r("rollout.more|episode.noisy", "distorted pictures are shown to a part of each group, whose size is fixed", hint)
	case e.Kind().Has(loss.Reference):
		r("rollout.more|loss.objective", fmt.Sprintf("objective %q compares groups of one size", e.Loss.Objective), hint)
	}
}

// checkRelative: a control word needs a reward that reads prompts.
func (e *Experiment) checkRelative(r report) {
	for i, w := range e.Rewards {
		if w.Relative == nil {
			continue
		}
		key := fmt.Sprintf("reward[%d].relative", i)
		if reads := rewardsThat(func(k RewardKind) bool { return k.Prompted }); w.Name != "" && !slices.Contains(reads, w.Name) {
			r(key, fmt.Sprintf("reward %q takes no control word: it does not read a prompt as a description", w.Name), "rewards that do: "+strings.Join(reads, ", "))
			continue
		}
		w.Relative.Check(under(key, r))
	}
}

// checkStagesFilter: pass rates are those of the untrained model.
func (e *Experiment) checkStagesFilter(r report) {
	e.checkStagesLists(r)
	e.checkStagesMoves(r)
	e.checkStagesLessons(r)
	for i := range e.Stages {
		if key := fmt.Sprintf("stage[%d].rollout.filter", i); e.written(key) {
			r(key, "prompts are filtered once, before the first stage", "write it in [rollout]")
		}
	}
}

// Anywhere are the rows of the turn's sampler where every step is one that is trained: what a
// sample of another iteration, whose window stood elsewhere, was drawn by.
func (t Turn) Anywhere() ([]sde.Row, error) {
	all := make([]int, t.Sampler.Steps)
	for i := range all {
		all[i] = i
	}
	_, rows, err := t.Sampler.rows(all)
	return rows, err
}

// choiceWords say what is chosen, for the plan.
func (e *Experiment) choiceWords() string {
	var all []string
	roll := e.Rollout
	if f := roll.Filter; f != nil {
		how := fmt.Sprintf("measured with %s each", count(f.Samples, "sample"))
		if f.Path != "" {
			how = "read from " + f.Path
		}
		all = append(all, fmt.Sprintf("prompts with a pass rate above %v and at most %v (%s)", f.Above, f.AtMost, how))
	}
	if c := roll.Curriculum; c != nil {
		all = append(all, fmt.Sprintf("prompts drawn in proportion to failure, at least %v", c.Floor))
	}
	if m := roll.More; m != nil {
		all = append(all, fmt.Sprintf("up to %d samples of prompts that mostly fail", m.Most))
	}
	if s := roll.Skip; s != nil {
		all = append(all, fmt.Sprintf("prompts that keep being solved (at %v) or failing (at %v) are skipped", s.Solved, s.Failed))
	}
	if q := roll.Resample; q != nil {
		all = append(all, fmt.Sprintf("further prompts for groups that teach nothing, up to %s", count(q.Rolls, "roll")))
	}
	if b := roll.Buffer; b != nil {
		all = append(all, fmt.Sprintf("%s of the last %s learned from again", count(b.Groups, "group"), count(b.Iterations, "iteration")))
	}
	return strings.Join(all, "; ")
}

// Choices are the keys that choose, for darkroom list.
func Choices() []Name {
	return []Name{
		{Name: "rollout.filter", Card: "Prompts that the untrained model always or never solves are left out before training (Qwen3-VL); rates are measured once, or read from a file."},
		{Name: "rollout.curriculum", Card: "Prompts drawn in proportion to how often they fail (GLM-4.5V, Kimi k1.5), or to how open their outcome is (single-stream SPO)."},
		{Name: "rollout.skip", Card: "Prompts that keep being solved, or keep failing, are skipped before they are rolled, more often the longer (GRESO)."},
		{Name: "rollout.more", Card: "Further samples of prompts that mostly fail, in the same iteration, until they move the weights as much as others (DARS)."},
		{Name: "rollout.resample", Card: "Further prompts are rolled in place of groups that teach nothing, up to a number of rolls (DAPO's dynamic sampling)."},
		{Name: "rollout.buffer", Card: "Groups with signal are learned from again for some iterations, with the log-probabilities they were rolled with (Skywork R1V2)."},
		{Name: "advantage.keep", Card: "Of a large group only the shortest answers, or those with the largest reward per token, are compared (GFPO)."},
		{Name: "advantage.filter", Card: "Groups that teach nothing are left out before samples are compared (DAPO)."},
		{Name: "advantage.best_of", Card: "Of a group its best and its worst samples are learned from (DanceGRPO), the largest advantages (CPPO), or the best and drawn others (PF-PPO); all of them are compared."},
		{Name: "advantage.turns", Card: "Turns of a group's episodes that begin in the same state are compared with each other, beside whole episodes (GiGPO)."},
		{Name: "advantage.margin", Card: "Of objective dpo: pairs whose totals lie closer are left out (verl-omni)."},
		{Name: "reward.relative", Card: "A reward's score with a positive control word less that with a negative one (SRPO): what it likes anyway cancels out."},
	}
}

package experiment

import (
	"fmt"
	"math"
)

// Options of T-GRPO: part of a group sees its clip with shuffled frames. The rule stands where totals are made.

// Shuffled is [episode.shuffled].
type Shuffled struct {
	Share  float64 `toml:"share" range:"(0,1)" doc:"of a group: these see the clip's frames in a drawn order, and nothing is learned from them; of a prompt without a clip all are learned from"`
	Bonus  float64 `toml:"bonus" range:"[0,1e6]" doc:"what a right answer's total gets beside, where the group needed the order of the frames"`
	Least  float64 `toml:"least" range:"[0,1e6]" doc:"the group needed the order where the mean score of those that saw it is at least this many times the mean of the others"`
	Right  float64 `toml:"right" range:"[-1e6,1e6]" doc:"an answer is right where its score lies above this"`
	Reward string  `toml:"reward" doc:"the reward, by its label, whose scores are compared; empty: the first that is trained on"`
}

// SetDefaults is what the code has: eight samples that are learned from, and four beside them.
func (s *Shuffled) SetDefaults() {
	*s = Shuffled{Share: 1. / 3, Bonus: 0.3, Least: 0.8, Right: 0.1}
}

// Of is how many of a group see shuffled frames: its last ones.
func (s Shuffled) Of(group int) int { return int(math.Round(s.Share * float64(group))) }

// rewardCalled is a reward's label; of "" it is that of the first that is trained on.
func (e *Experiment) rewardCalled(label string) (called string, ok bool) {
	for _, r := range e.Rewards {
		if label == r.Called() || label == "" && r.Train {
			return r.Called(), true
		}
	}
	return "", false
}

// ComparedBy is the reward whose scores [episode.shuffled] compares, by its label.
func (e *Experiment) ComparedBy() string {
	label, _ := e.rewardCalled(e.Episode.Shuffled.Reward)
	return label
}

// checkShuffled: what a control needs beside it.
func (e *Experiment) checkShuffled(r report) {
	s := e.Episode.Shuffled
	if s == nil {
		return
	}
	const hint = "leave [episode.shuffled] out"
	seen := s.Of(e.Rollout.Group)
	_, found := e.rewardCalled(s.Reward)
	switch {
	case e.Episode.Noisy != nil:
		r("episode.shuffled|episode.noisy", "both show the last of a group something else", "one of them")
	case e.Episode.Engine != nil:
		r("episode.shuffled", "an engine is shown no clips", "leave it out, or [episode.engine]")
	case e.Rollout.More != nil:
		r("rollout.more|episode.shuffled", "shuffled frames are shown to a part of each group, whose size is fixed", hint)
	case seen < 1 || e.Rollout.Group-seen < 2:
		r("episode.shuffled.share", fmt.Sprintf("of a group of %d, %d see shuffled frames: one must, and two must not", e.Rollout.Group, seen), "0.34 of a group of 12 is published")
	case e.Advantage.EachReward():
		r("episode.shuffled|advantage.estimator", "the bonus belongs to the total, and this estimator compares each reward by itself", hint)
	case !found:
		r("episode.shuffled.reward", fmt.Sprintf("no reward is called %q", s.Reward), "the label of a [[reward]], or its name where it has none")
	}
}

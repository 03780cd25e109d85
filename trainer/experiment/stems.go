package experiment

import (
	"fmt"
	"slices"
)

// Options of Tree-GRPO: the episodes of a group grow on trees, whose branches part where a turn ends.

// Stems is [episode.tree].
type Stems struct {
	Trees  int `toml:"trees" range:"[1,1e6]" doc:"of a prompt; each begins with an episode of its own"`
	Expand int `toml:"expand" range:"[1,1e6]" doc:"branches that a tree gets in a round: each goes on from the question or from the end of a drawn turn after which an episode of the tree went on"`
	Rounds int `toml:"rounds" range:"[1,1e6]" doc:"of branches; those of a later round may part from those of an earlier one"`
}

// SetDefaults is what the scripts have.
func (s *Stems) SetDefaults() { *s = Stems{Trees: 2, Expand: 2, Rounds: 1} }

// Size is how many episodes a tree has.
func (s Stems) Size() int { return 1 + s.Expand*s.Rounds }

// Of is the tree of a sample of a group, and the round that it is played in: 0 is that of the first episode.
func (s Stems) Of(sample int) (tree, round int) {
	return sample / s.Size(), (sample%s.Size() + s.Expand - 1) / s.Expand
}

// compareStems are the estimators that can compare a tree as they compare a group.
var compareStems = []string{"group", "dr", "leave-one-out"}

// checkStems: what trees need beside them.
func (e *Experiment) checkStems(r report) {
	s, p := e.Episode.Tree, e.Episode
	if s == nil {
		return
	}
	switch group := s.Trees * s.Size(); {
	case e.Rollout.Group != group:
		r("rollout.group|episode.tree", fmt.Sprintf("%d trees of %d episodes are %d samples of a prompt, and rollout.group is %d", s.Trees, s.Size(), group, e.Rollout.Group), fmt.Sprintf("group = %d: trees x (1 + expand x rounds)", group))
	case p.Engine != nil:
		r("episode.tree|episode.engine", "an engine draws answers from their beginning, and a branch begins with turns that are there", "one of them")
	case p.Exec != nil || len(p.Served) > 0:
		r("episode.tree", "a branch plays the turns before it again, and code and tools outside may answer otherwise then", "leave it out, or [episode.exec] and [[episode.tool]]")
	case p.Noisy != nil || p.Shuffled != nil || p.Guided != nil:
		r("episode.tree|episode.noisy|episode.shuffled|episode.guided", "part of a group begins in another way, and the branches of a tree begin alike", "leave [episode.tree] out")
	case e.Rollout.More != nil:
		r("rollout.more|episode.tree", "the samples of a prompt are the branches of its trees, whose number is fixed", "leave rollout.more out")
	case e.Advantage.Over == "batch":
		r("advantage.over|episode.tree", "a tree is compared as a group is, and rewards are compared over the batch", `over = "group"`)
	case e.Advantage.Keep != nil:
		r("advantage.keep|episode.tree", "other samples may be kept of a tree than of its prompt's", "leave advantage.keep out")
	case !slices.Contains(compareStems, e.Advantage.Estimator):
		r("advantage.estimator|episode.tree", fmt.Sprintf("estimator %q does not compare the episodes of a tree", e.Advantage.Estimator), `estimator = "group", "dr" or "leave-one-out"`)
	}
}

// fact is what a plan says of the trees.
func (s Stems) fact() Fact {
	branches := "a branch"
	if s.Expand != 1 {
		branches = fmt.Sprintf("%d branches", s.Expand)
	}
	return Fact{"trees", fmt.Sprintf("%s a prompt, each an episode and %s in %s; a branch plays the turns before it again, which costs what it cost to draw them", count(s.Trees, "tree"), branches, count(s.Rounds, "round"))}
}

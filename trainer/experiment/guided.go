package experiment

import "fmt"

// Options of G2RPO-A: part of a group is given the beginning of the prompt's solution.
// The rule stands in package prompts.

// guidedBy is the reward whose scores say how much is given, by its label.
func (e *Experiment) guidedBy() (label string, ok bool) {
	return e.rewardCalled(e.Episode.Guided.Reward)
}

// GuidedBy is the reward whose scores [episode.guided] follows, by its label.
func (e *Experiment) GuidedBy() string {
	label, _ := e.guidedBy()
	return label
}

// checkGuided: what guidance needs beside it.
func (e *Experiment) checkGuided(r report) {
	g := e.Episode.Guided
	if g == nil {
		return
	}
	g.Check(under("episode.guided", r))
	led, others := g.Of(e.Rollout.Group), 0
	if s := e.Episode.Shuffled; s != nil {
		others = s.Of(e.Rollout.Group)
	}
	_, found := e.guidedBy()
	switch {
	case e.Episode.Engine != nil:
		r("episode.guided|episode.engine", "an engine draws answers from their beginning, and says nothing of tokens that it is given", "one of them")
	case led < 1:
		r("episode.guided.share", fmt.Sprintf("of a group of %d, %d are given the beginning of the solution: one must", e.Rollout.Group, led), "0.17 of a group of 12 is published")
	case led+others > e.Rollout.Group:
		r("episode.guided.share|episode.shuffled.share", fmt.Sprintf("%d of a group of %d are given the beginning of the solution, and the last %d see shuffled frames", led, e.Rollout.Group, others), "smaller shares")
	case !found:
		r("episode.guided.reward", fmt.Sprintf("no reward is called %q", g.Reward), "the label of a [[reward]], or its name where it has none")
	}
}

// guidedFact is what a plan says of guidance.
func (e *Experiment) guidedFact() Fact {
	g := e.Episode.Guided
	paced := "as many in every iteration"
	if g.Every > 0 {
		paced = fmt.Sprintf("up to %d, more where %s has fallen in the last of %d iterations, and fewer where it has risen", g.Most, e.GuidedBy(), g.Every)
	}
	return Fact{"guidance", fmt.Sprintf("%d of a group of %d are given the first %s of meta.%s, and learn from these as from their own; %s", g.Of(e.Rollout.Group), e.Rollout.Group, count(g.Tokens, "token"), g.Key, paced)}
}

package experiment

import (
	"fmt"
	"slices"
)

// What is learned from conversations of a file, in place of rollouts.

// Lessons is a file of conversations, and which of their tokens are trained.
type Lessons struct{ File, Mask string }

// Taught reports whether a turn learns from conversations of a file.
func (e *Experiment) Taught() bool { return e.objective().Taught }

// Lessons are the files of all stages that learn from some, each once.
func (e *Experiment) Lessons() (all []Lessons) {
	for _, at := range e.everyStage() {
		l := Lessons{at.Rollout.Lessons, at.Rollout.LessonsMask}
		if at.Taught() && l.File != "" && !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

// AllTaught reports whether nothing is ever rolled.
func (e *Experiment) AllTaught() bool {
	return !slices.ContainsFunc(e.everyStage(), func(at *Experiment) bool { return !at.Taught() })
}

// unchosen takes from a stage that learns from a file what the rest of the experiment chooses by rewards: it
// is for the stages that roll. What the stage itself writes stays, and is refused.
func (e *Experiment) unchosen(prefix string, s *Stage) {
	of := func(key string) bool { return !e.written(prefix + key) }
	if of("advantage.filter") {
		s.Advantage.Filter = nil
	}
	if of("advantage.best_of") {
		s.Advantage.BestOf = 0
	}
	if of("rollout.resample") {
		s.Rollout.Resample = nil
	}
	if of("rollout.curriculum") {
		s.Rollout.Curriculum = nil
	}
	if of("rollout.skip") {
		s.Rollout.Skip = nil
	}
	if of("rollout.ban") {
		s.Rollout.Ban = nil
	}
	if of("rollout.buffer") {
		s.Rollout.Buffer = nil
	}
}

// checkLessons: who learns from a file needs one, and chooses nothing by rewards.
func (e *Experiment) checkLessons(r report) {
	roll, taught := e.Rollout, e.Taught()
	switch {
	case taught && roll.Lessons == "":
		r("rollout.lessons|loss.objective", `objective "sft" of an episode learns from conversations, and no file is named`, `lessons = "conversations.jsonl" under [rollout], or under [stage.rollout]`)
	case taught && roll.Group != 1:
		r("rollout.group|loss.objective", fmt.Sprintf("a conversation of a file is there once, and rollout.group is %d: its gradient would be added up as often", roll.Group), "group = 1 beside objective = \"sft\"")
	case taught && (roll.Resample != nil || roll.Curriculum != nil || roll.Buffer != nil || roll.Skip != nil || roll.Ban != nil || e.Advantage.Filter != nil || e.Advantage.BestOf > 0):
		r("rollout.lessons|loss.objective", "resample, curriculum, skip, buffer, filter and best_of choose by rewards, and conversations of a file have none", "leave them out of the stage that learns from the file")
	case taught && e.Loss.KL.Weight > 0 && len(e.Stages) == 0: // a stage has what the others read
		r("loss.kl.weight|loss.kl|loss.objective", `objective "sft" of an episode is the cross entropy alone`, "weight = 0")
	case taught && e.Loss.EntropyWeight > 0 && len(e.Stages) == 0:
		r("loss.entropy_weight|loss.objective", `objective "sft" of an episode is the cross entropy alone`, "entropy_weight = 0")
	case taught && (e.Episode.Noisy != nil || e.EstimatorKind().Values):
		r("loss.objective", "noisy pictures and heads of values are for rollouts", "two runs, the second from the first one's adapter")
	}
}

// checkStagesLessons: one list has prompts and lessons, and each lesson once.
func (e *Experiment) checkStagesLessons(r report) {
	masks := map[string]string{}
	for i, at := range e.everyStage() {
		if !at.Taught() {
			continue
		}
		if mask, ok := masks[at.Rollout.Lessons]; ok && mask != at.Rollout.LessonsMask {
			r(fmt.Sprintf("stage[%d].rollout.lessons_mask", i), fmt.Sprintf("%s is read with two masks", at.Rollout.Lessons), "one mask, or two files")
		}
		masks[at.Rollout.Lessons] = at.Rollout.LessonsMask
	}
	if len(masks) > 0 && e.Rollout.Filter != nil {
		r("rollout.filter", "pass rates are of prompts, and there are conversations of a file beside them", "leave it out")
	}
}

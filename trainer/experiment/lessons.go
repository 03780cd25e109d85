package experiment

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// What is learned from conversations of a file, in place of rollouts.

// Lessons is a file of conversations, and which of their tokens are trained.
type Lessons struct {
	File, Mask string
	Answers    int // of a row, that somebody judged; 0: the conversation itself is learned from
}

// Taught reports whether a turn learns from conversations of a file.
func (e *Experiment) Taught() bool { return e.Kind().Written() }

// Imitates reports whether a turn learns from conversations of a file beside its rollouts.
func (e *Experiment) Imitates() bool { return e.Episode != nil && e.Loss.Imitate.On() && !e.Taught() }

// Lessons are the files of all stages that learn from some, each once.
func (e *Experiment) Lessons() (all []Lessons) {
	for _, at := range e.everyStage() {
		if l := at.lessons(); (at.Taught() || at.Imitates()) && l.File != "" && !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

// lessons are those of a stage.
func (e *Experiment) lessons() Lessons {
	l := Lessons{File: e.Rollout.Lessons, Mask: e.Rollout.LessonsMask}
	if e.Kind().Learns == loss.JudgedAnswers {
		l.Answers = e.Rollout.Group
	}
	return l
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
	roll, taught, judged, name := e.Rollout, e.Taught(), e.Kind().Learns == loss.JudgedAnswers, e.Loss.Objective
	if judged {
		e.checkJudged(r)
	}
	switch {
	case e.Imitates() && roll.Lessons == "":
		r("rollout.lessons|loss.imitate", "loss.imitate learns from conversations beside the rollouts, and no file is named", `lessons = "conversations.jsonl" under [rollout]`)
	case e.Imitates() && e.Optim.Split && e.Optim.Updates > 1:
		r("optim.split|loss.imitate", "samples are shared out among the updates, and every update would learn from all written answers", "split = false: every update sees all of both")
	case e.Imitates():
		e.Loss.Imitate.Check(under("loss.imitate", r))
	case taught && e.Loss.Imitate.On() && len(e.Stages) == 0:
		r("loss.imitate.weight|loss.imitate|loss.objective", fmt.Sprintf("objective %q of an episode learns from nothing but conversations", name), "leave it out, or write objective = \"clip\"")
	case taught && e.Loss.Perception.On() && len(e.Stages) == 0:
		r("loss.perception.weight|loss.perception|loss.objective", fmt.Sprintf("objective %q of an episode masks no pictures", name), "leave it out")
	case taught && roll.Lessons == "":
		r("rollout.lessons|loss.objective", fmt.Sprintf("objective %q of an episode learns from conversations, and no file is named", name), `lessons = "conversations.jsonl" under [rollout], or under [stage.rollout]`)
	case taught && !judged && roll.Group != 1:
		r("rollout.group|loss.objective", fmt.Sprintf("a conversation of a file is there once, and rollout.group is %d: its gradient would be added up as often", roll.Group), "group = 1 beside objective = \"sft\"")
	case taught && (roll.Resample != nil || roll.Curriculum != nil || roll.Buffer != nil || roll.Skip != nil || roll.Ban != nil || e.Advantage.Filter != nil || e.Advantage.BestOf > 0):
		r("rollout.lessons|loss.objective", "resample, curriculum, skip, buffer, filter and best_of choose by rewards, and conversations of a file have none", "leave them out of the stage that learns from the file")
	case taught && e.Loss.KL.Weight > 0 && len(e.Stages) == 0: // a stage has what the others read
		r("loss.kl.weight|loss.kl|loss.objective", fmt.Sprintf("objective %q of an episode adds no distance from a reference to its loss", name), "weight = 0")
	case taught && e.Loss.EntropyWeight > 0 && len(e.Stages) == 0:
		r("loss.entropy_weight|loss.objective", fmt.Sprintf("objective %q of an episode looks at no entropy", name), "entropy_weight = 0")
	case taught && (e.Episode.Noisy != nil || e.Episode.Shuffled != nil || e.Episode.Guided != nil || e.Episode.Tree != nil || e.Comparison().ValueHead):
		r("loss.objective", "noisy pictures, shuffled frames, guidance, trees and heads of values are for rollouts", "two runs, the second from the first one's adapter")
	}
}

// checkJudged: who learns from judged answers needs as many of each row as it compares.
func (e *Experiment) checkJudged(r report) {
	o, roll := e.Loss.Preference, e.Rollout
	pairs := e.Kind().Has(loss.AnswerPairs)
	switch {
	case pairs && roll.Group != 2:
		r("rollout.group|loss.objective", fmt.Sprintf("a row has a better and a worse answer, and rollout.group is %d", roll.Group), "group = 2 beside objective = \"dpo\"")
	case roll.Group > 2:
		r("rollout.group|loss.objective", fmt.Sprintf("a row has one answer with a label or two that are compared, and rollout.group is %d", roll.Group), "group = 1 for rows with a label, 2 for pairs")
	case roll.LessonsMask != "whole":
		r("rollout.lessons_mask|loss.objective", "of judged answers the tokens of the answer are learned from, as a rollout has them", `lessons_mask = "whole"`)
	case e.Optim.Split && e.Optim.Updates > 1:
		r("optim.split|loss.objective", "answers are shared out among the updates, and a pair would be torn apart", "split = false: every update sees all of them")
	case !slices.Contains([]string{"base", "stage"}, e.Loss.KL.Reference):
		r("loss.kl.reference|loss.objective", fmt.Sprintf("answers are compared with the model as it was, and not with %q", e.Loss.KL.Reference), `reference = "base", or "stage": as this stage began`)
	case pairs:
		o.Check(under("loss.preference", r))
	}
}

// checkStagesLessons: one list has prompts and lessons, and each lesson once.
func (e *Experiment) checkStagesLessons(r report) {
	masks := map[string]Lessons{}
	for i, at := range e.everyStage() {
		if !at.Taught() && !at.Imitates() {
			continue
		}
		now := at.lessons()
		switch before, ok := masks[now.File]; {
		case ok && before.Mask != now.Mask:
			r(fmt.Sprintf("stage[%d].rollout.lessons_mask", i), fmt.Sprintf("%s is read with two masks", now.File), "one mask, or two files")
		case ok && before.Answers != now.Answers:
			r(fmt.Sprintf("stage[%d].rollout.lessons", i), fmt.Sprintf("%s is read as conversations and as judged answers, or with other numbers of answers", now.File), "two files")
		}
		masks[now.File] = now
	}
	compares := func(with string) bool {
		return slices.ContainsFunc(e.everyStage(), func(at *Experiment) bool {
			return at.Loss.KL.Reference == with && (at.Loss.KL.Weight > 0 && !at.Taught() || at.Kind().Has(loss.Reference))
		})
	}
	if compares("stage") && compares("base") {
		r("loss.kl.reference|stage", `there is one reference, and stages ask for "base" and for "stage"`, "one of them in all stages")
	}
	if len(masks) > 0 && e.Rollout.Filter != nil {
		r("rollout.filter", "pass rates are of prompts, and there are conversations of a file beside them", "leave it out")
	}
}

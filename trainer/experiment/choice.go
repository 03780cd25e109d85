package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/kinds"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Which prompts are rolled, and which samples are learned from.

// Resample rolls further prompts until enough groups have signal: those that [advantage.filter] keeps, or, without,
// groups whose totals differ.
type Resample struct {
	Rolls   int `toml:"rolls" range:"[2,1000]" doc:"of an iteration at most, the first one included"`
	Prompts int `toml:"prompts" range:"[0,1e6]" doc:"of a further roll; 0: as many as groups are lacking"`
}

// Card describes the choice and names its source.
func (Resample) Card() string {
	return "Further prompts are rolled in place of groups that teach nothing, up to a number of rolls (DAPO's dynamic sampling)."
}

// Words are the choice in a plan.
func (q Resample) Words() string {
	return fmt.Sprintf("further prompts for groups that teach nothing, up to %s", count(q.Rolls, "roll"))
}

// SetDefaults is how far one goes who says nothing: verl's recipes have ten.
func (r *Resample) SetDefaults() { *r = Resample{Rolls: 10} }

// Buffer keeps groups with signal for further iterations.
type Buffer struct {
	Iterations int `toml:"iterations" range:"[1,1e6]" doc:"that a group is kept for"`
	Groups     int `toml:"groups" range:"[1,1e6]" doc:"of earlier iterations that an iteration learns from beside its own"`
}

// Card describes the choice and names its source.
func (Buffer) Card() string {
	return "Groups with signal are learned from again for some iterations, with the log-probabilities they were rolled with (Skywork R1V2)."
}

// Words are the choice in a plan.
func (b Buffer) Words() string {
	return fmt.Sprintf("%s of the last %s learned from again", count(b.Groups, "group"), count(b.Iterations, "iteration"))
}

// SetDefaults is one old group, from no further back than four iterations.
func (b *Buffer) SetDefaults() { *b = Buffer{Iterations: 4, Groups: 1} }

// checkChoice: the choice of prompts and samples.
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
		if reads := kinds.That(func(k rewards.Kind) bool { return k.Is(rewards.Prompted) }); w.Name != "" && !slices.Contains(reads, w.Name) {
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

// Anywhere are the rows of the sampler where every step is one that is trained: samples of another iteration, whose
// window was elsewhere, were drawn by them.
func (it Settings) Anywhere() ([]sde.Row, error) {
	all := make([]int, it.Sampler.Steps)
	for i := range all {
		all[i] = i
	}
	_, rows, err := it.Sampler.rows(all)
	return rows, err
}

// choiceWords describe the choices, for the plan.
func (e *Experiment) choiceWords() string {
	var all []string
	roll := e.Rollout
	for _, c := range []struct {
		on    bool
		words func() string
	}{
		{roll.Filter != nil, func() string { return roll.Filter.Words() }},
		{roll.Curriculum != nil, func() string { return roll.Curriculum.Words() }},
		{roll.More != nil, func() string { return roll.More.Words() }},
		{roll.Skip != nil, func() string { return roll.Skip.Words() }},
		{roll.Resample != nil, func() string { return roll.Resample.Words() }},
		{roll.Buffer != nil, func() string { return roll.Buffer.Words() }},
	} {
		if c.on {
			all = append(all, c.words())
		}
	}
	return strings.Join(all, "; ")
}

// Choices are the keys that choose, for darkroom list. Each is described beside its formula.
func Choices() []Name {
	return []Name{
		{Name: "rollout.filter", Card: prompts.PassRates{}.Card()},
		{Name: "rollout.curriculum", Card: prompts.Curriculum{}.Card()},
		{Name: "rollout.skip", Card: prompts.Skip{}.Card()},
		{Name: "rollout.more", Card: prompts.More{}.Card()},
		{Name: "rollout.resample", Card: Resample{}.Card()},
		{Name: "rollout.buffer", Card: Buffer{}.Card()},
		{Name: "advantage.keep", Card: advantage.Keep{}.Card()},
		{Name: "advantage.filter", Card: advantage.Filter{}.Card()},
		{Name: "advantage.best_of", Card: advantage.BestCard},
		{Name: "advantage.turns", Card: advantage.Turns{}.Card()},
		{Name: "advantage.margin", Card: advantage.MarginCard},
		{Name: "reward.relative", Card: rewards.Relative{}.Card()},
	}
}

// An experiment's training data: one list of prompts or several, in each of its stages. All of them lie one behind
// another in one list, in which a key names a prompt by its place; a stage draws from its own.

// A List is one that stages train on, and the first of Turns that does.
type List struct {
	Name    string
	Offline bool // its prompts name pictures that are learned from
	Turn    int
}

// Lists are those of all stages, each once, in the order of the stages.
func (e *Experiment) Lists() (all []List) {
	for i, at := range e.EachStage() {
		for _, name := range at.Rollout.Prompts {
			if !slices.ContainsFunc(all, func(l List) bool { return l.Name == name }) {
				all = append(all, List{name, at.Rollout.Offline, i})
			}
		}
	}
	return all
}

// Training reads the training data of all stages: read reads a list of pictures that exist.
func (e *Experiment) Training(read func(name string) ([]prompts.Prompt, error)) (all []prompts.Prompt, err error) {
	for _, l := range e.Lists() {
		open := e.Open
		if l.Offline {
			open = read
		}
		list, err := open(l.Name)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = list // without a copy, where there is one
			continue
		}
		all = append(all, list...)
	}
	return all, nil
}

// Named are the names of lists, for people.
func (r Rollout) Named() string { return strings.Join(r.Prompts, ", ") }

// Named are the names of all lists of the stages, for people.
func (e *Experiment) Named() string {
	var names []string
	for _, l := range e.Lists() {
		names = append(names, l.Name)
	}
	return strings.Join(names, ", ")
}

// SamePrompts reports whether another stage goes on with the same lists.
func (r Rollout) SamePrompts(other Rollout) bool {
	return slices.Equal(r.Prompts, other.Prompts) && slices.Equal(r.Shares, other.Shares)
}

// PromptsPerList are the prompts of each list in an iteration, by its share; nil without shares.
func (r Rollout) PromptsPerList() (all []float64) {
	sum := 0.0
	for _, s := range r.Shares {
		sum += s
	}
	for _, s := range r.Shares {
		all = append(all, float64(r.PromptsPerIteration)*s/sum)
	}
	return all
}

// AllOffline reports whether nothing is rolled in any stage, since pictures exist that are learned from.
func (e *Experiment) AllOffline() bool {
	return !slices.ContainsFunc(e.EachStage(), func(at *Experiment) bool { return !at.Rollout.Offline })
}

// ownLists forgets shares of other lists than a stage's own.
func (e *Experiment) ownLists(prefix string, s *Stage) {
	if e.written(prefix+"rollout.prompts") && !e.written(prefix+"rollout.shares") {
		s.Rollout.Shares = nil
	}
}

// checkLists: lists that are there once, and a share of each.
func (e *Experiment) checkLists(r report) {
	roll := e.Rollout
	for i, name := range roll.Prompts {
		if slices.Contains(roll.Prompts[:i], name) {
			r(fmt.Sprintf("rollout.prompts[%d]", i), name+" is there twice", "once, with a larger number in rollout.shares")
			return
		}
	}
	switch n := len(roll.Shares); {
	case n == 0:
	case n != len(roll.Prompts):
		r("rollout.shares", fmt.Sprintf("%s of %s", count(n, "share"), count(len(roll.Prompts), "list")), "a number for each list of rollout.prompts, in their order")
	case roll.Curriculum != nil:
		r("rollout.shares|rollout.curriculum", "both say which prompts come more often", "one of them")
	}
}

// checkStagesLists: a list is read in one way.
func (e *Experiment) checkStagesLists(r report) {
	for i, at := range e.EachStage() {
		for _, l := range e.Lists() {
			if l.Offline != at.Rollout.Offline && slices.Contains(at.Rollout.Prompts, l.Name) {
				key := fmt.Sprintf("stage[%d].rollout.offline", i)
				if !e.written(key) {
					key = fmt.Sprintf("stage[%d].rollout.offline", l.Turn)
				}
				r(key, fmt.Sprintf("%s has prompts in one stage, and in another pictures that are learned from", l.Name), "a list of its own: prompts in [stage.rollout]")
				return
			}
		}
	}
}

// listWords say which lists an iteration's prompts are of.
func (e *Experiment) listWords() string {
	roll := e.Rollout
	if len(roll.Shares) != len(roll.Prompts) {
		return roll.Named()
	}
	var all []string
	for i, name := range roll.Prompts {
		all = append(all, fmt.Sprintf("%s (%v)", name, roll.Shares[i]))
	}
	return strings.Join(all, ", ") + " by shares"
}

// checkOffline: settings that existing pictures cannot be learned with.
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
	case roll.TextNoise != nil:
		r(offline+"|rollout.text_noise", "pictures in files are not rolled, so that no text of a roll has noise", "leave rollout.text_noise out")
	case roll.Resample != nil || roll.Curriculum != nil || roll.Skip != nil || roll.Ban != nil || roll.Filter != nil || roll.Buffer != nil:
		r(offline, "prompts and samples are chosen by what the model makes of them, and here it makes nothing", "leave rollout.resample, curriculum, filter and buffer out")
	case e.Advantage.How != "rewards":
		r(offline+"|advantage.combine", "files say what a picture is worth in one number", `combine = "rewards"`)
	}
}

// Finetunes reports whether an iteration learns from pictures as they are: nothing is compared, so that no reward is
// needed.
func (e *Experiment) Finetunes() bool {
	return e.Rollout.Offline && e.Episode == nil && e.Loss.Objective == loss.SFT
}

// AllFinetune reports whether all stages do.
func (e *Experiment) AllFinetune() bool {
	return !slices.ContainsFunc(e.EachStage(), func(at *Experiment) bool { return !at.Finetunes() })
}

// finetuned has the usual settings of fine-tuning on pictures: a group is one picture, whose score is its weight. An
// experiment of stages writes them itself.
func (e *Experiment) finetuned() {
	if !e.Finetunes() || len(e.Stages) > 0 {
		return
	}
	if !e.Given("rollout.group") {
		e.Rollout.Group = 1
	}
	if !e.Given("advantage.singleton") {
		e.Advantage.Singleton = "raw"
	}
}

// Learning from conversations of a file, in place of rollouts.

// Lessons is a file of conversations, and which of their tokens are trained.
type Lessons struct {
	File, Mask string
	Answers    int // of a row, that somebody judged; 0: the conversation itself is learned from
}

// Supervised reports whether an iteration learns from conversations of a file.
func (e *Experiment) Supervised() bool { return e.Kind().Written() }

// Imitates reports whether an iteration learns from conversations of a file beside its rollouts.
func (e *Experiment) Imitates() bool {
	return e.Episode != nil && e.Loss.Imitate.On() && !e.Supervised()
}

// Lessons are the files of all stages that learn from some, each once.
func (e *Experiment) Lessons() (all []Lessons) {
	for _, at := range e.EachStage() {
		if l := at.lessons(); (at.Supervised() || at.Imitates()) && l.File != "" && !slices.Contains(all, l) {
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

// AllSupervised reports whether no stage has rollouts.
func (e *Experiment) AllSupervised() bool {
	return !slices.ContainsFunc(e.EachStage(), func(at *Experiment) bool { return !at.Supervised() })
}

// unchosen takes from a stage that learns from a file the experiment's choices by rewards: it is for the stages that
// roll. The stage's own keys stay, and are refused.
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
	roll, taught, judged, name := e.Rollout, e.Supervised(), e.Kind().Learns == loss.JudgedAnswers, e.Loss.Objective
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
	case taught && e.Loss.KL.Weight > 0 && len(e.Stages) == 0: // a stage has the others' reference
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
	for i, at := range e.EachStage() {
		if !at.Supervised() && !at.Imitates() {
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
		return slices.ContainsFunc(e.EachStage(), func(at *Experiment) bool {
			return at.Loss.KL.Reference == with && (at.Loss.KL.Weight > 0 && !at.Supervised() || at.Kind().Has(loss.Reference))
		})
	}
	if compares("stage") && compares("base") {
		r("loss.kl.reference|stage", `there is one reference, and stages ask for "base" and for "stage"`, "one of them in all stages")
	}
	if len(masks) > 0 && e.Rollout.Filter != nil {
		r("rollout.filter", "pass rates are of prompts, and there are conversations of a file beside them", "leave it out")
	}
}

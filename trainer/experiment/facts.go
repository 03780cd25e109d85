package experiment

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/tools"
)

// An experiment's facts, in a line each, for the plan: from resolved options, not from the names that set them.

// A Fact is one of these lines.
type Fact struct {
	What string `json:"what"`
	How  string `json:"how"`
}

// facts are those of the whole run.
func (e *Experiment) facts() []Fact {
	train := strings.Join(e.Model.Train, ", ")
	if train == "lora" {
		l := e.Model.LoRA
		train = fmt.Sprintf("LoRA of rank %d, alpha %v on %s", l.Rank, l.Alpha, strings.Join(l.Targets, ", "))
		if l.Init == "gaussian" {
			train += ", begun as PEFT's gaussian"
		}
		if e.Model.Adapter != "" {
			train += ", beginning with " + e.Model.Adapter
		}
	}
	if blank := e.Model.Blank; len(blank) > 0 {
		train += "; begins as random numbers " + strings.Join(blank, ", ")
	}
	if tokens := e.Model.NewTokens; len(tokens) > 0 {
		train += "; new tokens " + strings.Join(tokens, " ")
	}
	all := []Fact{{"model", fmt.Sprintf("%s, %s; trains %s", e.Model.Path, e.Model.Precision, train)}, {"rewards", e.rewardWords()}}
	if e.Episode != nil {
		all = append(all, Fact{"told", e.toldWords()})
	}
	return all
}

// toldWords describe the model's instructions for tools.
func (e *Experiment) toldWords() string {
	in, err := e.Episode.Instructions(e.Model.Path)
	switch {
	case err != nil:
		return err.Error()
	case in == (tools.Instructions{}) && e.Episode.System == nil:
		return "nothing of its tools: embedded models were made so (episode.system says otherwise)"
	case in == (tools.Instructions{}):
		return "nothing of its tools: episode.system is empty"
	case in.Source == "":
		return fmt.Sprintf("what episode.system says: %q", in.System)
	}
	said := fmt.Sprintf("as %s, where a row has no system message; ", in.Source)
	if in.System != "" {
		said += fmt.Sprintf("system message: %q", in.System)
	}
	if in.Question != "" {
		said += strings.Repeat("; ", min(1, len(in.System))) + fmt.Sprintf("around the question: %q", in.Question)
	}
	return said
}

// rewardWords name the trained rewards, and the measured ones.
func (e *Experiment) rewardWords() string {
	var trained, gold []string
	for _, r := range e.Rewards {
		name := r.Called()
		if r.Toy() != "" {
			name += " (embedded toy)"
		}
		switch one := name + map[bool]string{true: " × ", false: "^"}[e.Together.Combine != "product"] + fmt.Sprint(r.Weight); {
		case !r.Train:
			gold = append(gold, name)
		case r.Gate.By != "":
			trained = append(trained, fmt.Sprintf("%s where %s ≥ %v", one, r.Gate.By, r.Gate.AtLeast))
		default:
			trained = append(trained, one)
		}
	}
	rewards := strings.Join(trained, map[string]string{"sum": " + ", "product": " · "}[e.Together.Combine])
	if how := map[string]string{"least": "the least of ", "harmonic": "the harmonic mean of ", "ensemble": "the mean, less the disagreement, of "}[e.Together.Combine]; how != "" {
		rewards = how + strings.Join(trained, ", ")
	}
	if len(e.Rewards) == 0 {
		return "none: pictures are learned from as they are"
	}
	if len(gold) > 0 {
		rewards += "; measured only: " + strings.Join(gold, ", ")
	}
	return rewards
}

// stageFacts are those that stages may change.
func (e *Experiment) stageFacts() []Fact {
	o := e.Optim
	optimiser := fmt.Sprintf("rate %v, %s an iteration", o.LR, count(o.Updates, "update"))
	if o.GradClip > 0 {
		optimiser += fmt.Sprintf(", gradients cut to %v", o.GradClip)
	}
	if o.EMA > 0 {
		optimiser += fmt.Sprintf(", moving average %v", o.EMA)
	}
	all := []Fact{{"rollout", e.rolls()}}
	if lag := e.Run.Lag; lag > 0 && !e.Supervised() {
		all = append(all, Fact{"lag", fmt.Sprintf("iteration i is rolled by the weights of iteration i - %d, so that workers have %s groups at once; %d further sets of weights are kept", lag, fmt.Sprint(e.Rollout.PromptsPerIteration*(lag+1)), lag+1)})
	}
	if sizes := e.sizeWords(); sizes != "" && e.Episode == nil {
		all = append(all, Fact{e.Makes()[0], sizes})
	}
	if e.reweighed {
		all = append(all, Fact{"rewards", e.rewardWords()})
	}
	if choice := e.choiceWords(); choice != "" {
		all = append(all, Fact{"choice", choice})
	}
	if e.Episode != nil && e.Comparison().ValueHead {
		v := e.Loss.Value
		all = append(all, Fact{"values", fmt.Sprintf("a head on the model's states, rate %v, values cut to ±%v about the roll's, alone for %s; 16 bytes for each number of a state (weight, gradient, two averages), and each answer goes through the network once more", v.LR, v.ClipRange, count(v.Warmup, "iteration"))})
	}
	if e.Episode != nil && e.Episode.Exec != nil {
		x := e.Episode.Exec
		all = append(all, Fact{"programs", fmt.Sprintf("code that the model writes is run by %s; a block has %v seconds, and %d bytes and %s of what it makes are read; after an error %s. What it may read, reach and delete is that command's choice", x.Words(), x.Timeout, x.Output, count(x.Pictures, "picture"), map[string]string{"tell": "the model sees the error and continues", "end": "the episode ends"}[x.Errors])})
	}
	if e.Episode != nil && e.Episode.Noisy != nil {
		n := e.Episode.Noisy
		all = append(all, Fact{"noise", fmt.Sprintf("%d of a group of %d see distorted pictures, step %d of 1000 annealed by %s; ratios are from log-probabilities %s", n.Of(e.Rollout.Group), e.Rollout.Group, n.Strength, n.Schedule,
			map[string]string{"clean": "on the clean ones", "rolled": "as they were drawn, so that the first is not 1"}[n.Old])})
	}
	if e.Episode != nil && e.Episode.Shuffled != nil {
		s := e.Episode.Shuffled
		all = append(all, Fact{"control", fmt.Sprintf("%d of a group of %d see a clip with shuffled frames, and teach nothing; where the others' mean %s is at least %v times theirs, a score above %v earns %v more", s.Of(e.Rollout.Group), e.Rollout.Group, e.ComparedBy(), s.Least, s.Right, s.Bonus)})
	}
	if e.Episode != nil && e.Episode.Tree != nil {
		all = append(all, e.Episode.Tree.fact())
	}
	if e.Episode != nil && e.Episode.Guided != nil {
		all = append(all, e.guidedFact())
	}
	if e.Episode != nil && e.Comparison().GreedyAnswer {
		all = append(all, Fact{"baseline", "the likeliest answer to each prompt, which is played beside its group"})
	}
	if len(e.moves) > 0 {
		all = append(all, Fact{"moves", strings.Join(e.moves, ", ") + " of what is trained; the other gradients are computed and forgotten"})
	}
	return append(all, Fact{"advantages", e.Advantage.words(e.Episode != nil)}, Fact{"objective", e.objectiveWords()}, Fact{"optimiser", optimiser})
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (e *Experiment) rolls() string {
	switch l := e.lessons(); {
	case e.Supervised() && l.Answers > 0:
		return fmt.Sprintf("nothing: %s of %s are learned from, %s each", count(e.Rollout.PromptsPerIteration, "row"), l.File, count(l.Answers, "judged answer"))
	case e.Supervised():
		return fmt.Sprintf("nothing: %s of %s are learned from, mask %s", count(e.Rollout.PromptsPerIteration, "conversation"), l.File, l.Mask)
	case e.Rollout.Offline:
		return fmt.Sprintf("nothing: %s with pictures of %s are learned from", count(e.Rollout.PromptsPerIteration, "prompt"), e.listWords())
	}
	s := fmt.Sprintf("%s of %s, %s each", count(e.Rollout.PromptsPerIteration, "prompt"), e.listWords(), count(e.Rollout.Group, "sample"))
	if e.Episode != nil {
		return fmt.Sprintf("%s; %s, up to %d turns and %d tokens", s, e.Episode.Protocol, e.Episode.Turns, e.Episode.Tokens)
	}
	switch t := e.Sampler.Tree; {
	case t != nil:
		s += t.Of().Words(*t, e.Rollout.Group)
	case e.Rollout.SharedNoise:
		s += " from one start noise"
	}
	if n := e.Rollout.TextNoise; n != nil {
		s += fmt.Sprintf(", by texts with noise of %v of their states", n.Strength)
		if n.Schedule == "linear" {
			s += ", which falls to 0"
		}
	}
	switch g := e.Sampler.Guidance; {
	case g <= 1:
		s += "; no guidance"
	case e.passes() == 2:
		s += fmt.Sprintf("; guidance %v by two outputs, which counts passes twice", g)
	default:
		s += fmt.Sprintf("; guidance %v, an input of the network", g)
	}
	return s
}

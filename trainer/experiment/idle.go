package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/config"
)

// A written key that nothing reads is no mistake, since methods may be varied over one file, and is easily
// overlooked: the plan warns.

// idle says which written keys nothing reads. A key outside of [[stage]] is read where any stage reads it.
func (e *Experiment) idle() []string {
	by := map[string]string{}
	for i, at := range e.everyStage() {
		unread := at.unreadKeys("")
		if i == 0 {
			by = unread
		}
		maps.DeleteFunc(by, func(key, _ string) bool { _, ok := unread[key]; return !ok })
	}
	for i := range e.Stages {
		maps.Copy(by, e.Stage(i).unreadKeys(fmt.Sprintf("stage[%d].", i)))
	}
	keys := map[string][]string{}
	for key, who := range by {
		keys[who] = append(keys[who], key)
	}
	var all []string
	for _, who := range slices.Sorted(maps.Keys(keys)) {
		slices.Sort(keys[who])
		how := "by "
		if strings.Contains(who, " = ") {
			how = "with "
		}
		all = append(all, fmt.Sprintf("%s %s not read %s%s", strings.Join(keys[who], ", "), are(len(keys[who])), how, who))
	}
	return append(all, e.idleAverage()...)
}

// idleAverage says that nothing looks at the moving average, whoever turned it on.
func (e *Experiment) idleAverage() []string {
	if all := e.everyStage(); e.doc.Origin("evaluate.weights") != config.Absent && e.Evaluate.Weights == "ema" && !slices.ContainsFunc(all, func(at *Experiment) bool { return at.Optim.EMA > 0 }) {
		return []string{"evaluate.weights = \"ema\" is not read without a moving average (optim.ema is 0): the weights themselves are evaluated"}
	}
	for _, at := range e.everyStage() {
		if at.Optim.EMA == 0 || at.averaged() {
			return nil
		}
	}
	return []string{fmt.Sprintf("optim.ema = %v keeps an average of the trained weights that nothing looks at: evaluations have the weights themselves, and checkpoints have it beside them; evaluate.weights = \"ema\" looks at it, ema = 0 saves its memory", e.Optim.EMA)}
}

// averaged reports whether the objective looks at the moving average of the weights.
func (e *Experiment) averaged() bool {
	l, o := e.Loss, e.objective()
	return e.Evaluate.Weights == "ema" || o.Follows || l.KL.Reference == "ema" && (l.KL.Weight > 0 || o.Reference) || l.KL.EMAWeight > 0 && slices.Contains(e.objectiveReads(), "awm")
}

// everyStage is the experiment as each of its stages has it: itself without stages.
func (e *Experiment) everyStage() []*Experiment {
	if len(e.Stages) == 0 {
		return []*Experiment{e}
	}
	var all []*Experiment
	for i := range e.Stages {
		all = append(all, e.Stage(i))
	}
	return all
}

func are(n int) string {
	if n > 1 {
		return "are"
	}
	return "is"
}

// Package preflight holds an experiment against the files that it names, before anything is computed: prompts and
// their pictures, the settings and headers of the model's folder, the inputs of rewards. No weight is read.
//
//	notes, err := preflight.Check(e, cpu.NewDry(cpu.Options{Path: path}))
//
// The error lists all mistakes, each with its place in the experiment's file, in the form of experiment.Parse. darkroom
// plan, train and ablate begin with Check, so that a plan refuses whatever a run would refuse.
//
// prompts.go reads lists of prompts; the model's folder is inspected by its modality (model.Modality).
package preflight

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/judges"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/run"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// A check is one experiment with the readable parts of its files.
type check struct {
	model.Folder
	modality model.Modality
}

// Check reports all mistakes in the files of an experiment, and notes on unwise settings. Layers to adapt that the
// file does not name become those that are usual for the model. dry is a backend that computes nothing.
func Check(e *experiment.Experiment, dry kernels.Backend) (notes []string, err error) {
	c := &check{Folder: model.Folder{Experiment: e, Pool: tensor.NewPool(dry), Prompts: map[string][]prompts.Prompt{}}, modality: run.ModalityOf(e)}
	defer kernels.Recover(&err)
	if e.Mistakes() != nil {
		c.lookFurther()
		return nil, e.Mistakes()
	}
	c.readPrompts()
	c.openModel()
	c.checkRewards()
	c.openRewards()
	c.checkWeights()
	c.checkNamed()
	return c.Notes, e.Mistakes()
}

// lookFurther looks for mistakes in the files that a file with other mistakes names, as far as it could be read, so
// that they are reported together. A model's folder is compared with values of all tables, and is only looked for.
func (c *check) lookFurther() {
	lists := c.Sound("rollout", "evaluate", "episode", "stage")
	if lists {
		c.readPrompts()
	}
	c.openRewards()
	if lists && c.Sound("reward") && c.Sound("run", "model") {
		c.checkRewards()
		c.checkNamed()
	}
	if c.Model.Path == "" || !c.Sound("model") {
		return
	}
	if dir, err := assets.Resolve(c.Model.Path); err != nil {
		c.Fail("model.path", err)
	} else if _, err := os.Stat(dir); err != nil {
		c.Refuse("model.path", c.Model.Path+": no such folder", assets.Fetching(c.Model.Path))
	}
}

// openModel opens the model's folder, as far as its headers.
func (c *check) openModel() {
	dir, err := assets.Resolve(c.Model.Path)
	if err != nil {
		c.Fail("model.path", err)
		return
	}
	c.Dir = dir
	c.modality.Inspect(&c.Folder)
}

// checkNamed looks for files that are named elsewhere: a teacher, rates that were measured, solutions that are given.
func (c *check) checkNamed() {
	if t := c.Model.Teacher; t != "" {
		if dir, err := assets.Resolve(t); err != nil {
			c.Fail("model.teacher", err)
		} else if _, err := os.Stat(dir); err != nil {
			c.Refuse("model.teacher", t+": no such folder or file", "a run's folder, an adapter, or another model's folder")
		}
	}
	if f := c.Rollout.Filter; f != nil && f.Path != "" {
		if _, err := os.Stat(f.Path); err != nil {
			c.Refuse("rollout.filter.path|rollout.filter", f.Path+": no such file", "leave path out: rates are measured then; darkroom writes them into a run's folder")
		}
	}
	c.checkPrograms()
	if p := c.Episode; p != nil && p.Guided != nil && len(c.Prompts["rollout.prompts"]) > 0 {
		all := c.Prompts["rollout.prompts"]
		if !slices.ContainsFunc(all, func(one prompts.Prompt) bool { s, err := p.Guided.Solution(one.Meta); return err != nil || s != "" }) {
			c.Refuse("episode.guided|preset", fmt.Sprintf("none of the %d prompts of %s has meta.solution, of which answers are given the beginning", len(all), c.Named()), `{"prompt": "...", "meta": {"answer": "7", "solution": "First ..."}}`)
		}
	}
}

// checkPrograms looks for programs that episodes start: those behind tools, and the one that runs the model's code. A
// key that the environment lacks is a note, as a reward's is.
func (c *check) checkPrograms() {
	if c.Episode == nil || !c.Clean("episode") {
		return
	}
	for i, t := range c.Episode.Served {
		key := fmt.Sprintf("episode.tool[%d].command", i)
		if t.KeyEnv != "" && os.Getenv(t.KeyEnv) == "" {
			c.Notes = append(c.Notes, fmt.Sprintf("tool %s: the environment variable %s, which key_env names, is empty: 'train' needs it", t.Name, t.KeyEnv))
		}
		if len(t.Command) == 0 {
			continue
		}
		if err := call.LookUp(t.Command); err != nil {
			c.Fail(key, fmt.Errorf("tool %s: %w", t.Name, err))
		}
	}
	if x := c.Episode.Exec; x != nil {
		if _, err := exec.LookPath(x.Command[0]); err != nil { // it is started in an episode's own folder: of scripts nothing is known
			c.Fail("episode.exec.command", fmt.Errorf("what runs the model's code: %w", err))
		}
	}
}

// checkRewards compares rewards with the prompts that they are asked about.
func (c *check) checkRewards() {
	for i, r := range c.Rewards {
		read := judges.Reads(r)
		if read == nil || c.AllSupervised() {
			continue
		}
		for _, key := range []string{"rollout.prompts", "evaluate.prompts"} {
			c.checkReads(fmt.Sprintf("reward[%d].name", i), key, r.Called(), read)
		}
	}
}

// openRewards opens every reward on a device that computes nothing, as a run will on its own: folders, their settings
// and the headers of their weights, programs and scripts are there. A key that the environment lacks is a note, since a
// file may be planned elsewhere than it is run.
func (c *check) openRewards() {
	bench := judges.Bench{Device: func() (*features.Device, error) { return features.On(c.Pool, features.F32), nil }}
	for i, r := range c.Rewards {
		if !c.Clean(fmt.Sprintf("reward[%d]", i)) {
			continue // an invalid reward
		}
		o, err := judges.Open(r, bench)
		if err == nil {
			err = o.Close()
		}
		key := fmt.Sprintf("reward[%d].", i)
		switch {
		case errors.Is(err, rewards.ErrNoKey):
			c.Notes = append(c.Notes, fmt.Sprintf("%v: 'train' needs it", err))
		case err != nil:
			c.Fail(key+"path|"+key+"command|"+key+"motion|"+key+"name", err)
		}
	}
}

// checkReads refuses a list of which a reward can read nothing, and notes one of which it cannot read all.
func (c *check) checkReads(at, list, reward string, read func(prompts.Prompt) error) {
	all, unread := c.Prompts[list], 0
	var first error
	for _, p := range all {
		if err := read(p); err != nil {
			if unread++; first == nil {
				first = err
			}
		}
	}
	switch path := map[string]string{"rollout.prompts": c.Named(), "evaluate.prompts": c.Evaluate.Prompts}[list]; {
	case unread == 0:
	case unread == len(all):
		c.Refuse(at, fmt.Sprintf("reward %q can read none of the prompts of %s: %v", reward, path, first), "prompts that it reads, or another reward")
	default:
		c.Notes = append(c.Notes, fmt.Sprintf("reward %s cannot read %d of the %d prompts of %s, and their samples will be missing: %v", reward, unread, len(all), path, first))
	}
}

// checkWeights refuses weights of prompts that name no reward, or that nothing reads.
func (c *check) checkWeights() {
	for _, key := range []string{"rollout.prompts", "evaluate.prompts"} {
		for n, p := range c.Prompts[key] {
			if problem, hint := wrongWeights(c.Experiment, p.Weights); problem != "" {
				c.Refuse(key, fmt.Sprintf("prompt %d, %q: %s", n+1, p.Text, problem), hint)
				break
			}
		}
	}
}

// wrongWeights is a mistake in a prompt's weights; "": nothing is.
func wrongWeights(e *experiment.Experiment, weights map[string]float64) (problem, hint string) {
	if len(weights) > 0 && e.Advantage.EachReward() {
		return "it has weights of its own, and advantages of each reward are added up", `advantage.combine = "rewards", or no weights in prompts`
	}
	var trained []string
	for _, r := range e.Rewards {
		if r.Train {
			trained = append(trained, r.Called())
		}
	}
	for _, label := range slices.Sorted(maps.Keys(weights)) {
		switch {
		case !slices.Contains(trained, label):
			return fmt.Sprintf("it weighs %q, and no reward that is trained on is called so", label), "there are " + strings.Join(trained, ", ")
		case weights[label] < 0 && !e.Combination().Adds():
			return fmt.Sprintf("the weight of %q is %v, and rewards that are combined by %q have none below 0", label, weights[label], e.Together.Combine), `rewards.combine = "sum" takes them off`
		}
	}
	if _, err := e.Combination().WeightsFor(weights); err != nil {
		return err.Error(), "advantage.shares = false"
	}
	return "", ""
}

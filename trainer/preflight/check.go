package preflight

import (
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// A check is one experiment with what was read of its files.
type check struct {
	model.Folder
	modality model.Modality
}

// Check reports all that is wrong with the files of an experiment, and notes on what only seems unwise. Layers to
// adapt that the file does not name become those that are usual for the model. dry is a backend that computes
// nothing.
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

// lookFurther looks for mistakes in what a file with others names, as far as it could be read, so that they are told
// together. A model's folder is compared with values of all tables, and is only looked for.
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
		c.Refuse("model.path", c.Model.Path+": no such folder", "'darkroom pull OWNER/NAME' fetches one from its hub")
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

// checkNamed looks for what is named elsewhere: a teacher, rates that were measured, solutions that are given.
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

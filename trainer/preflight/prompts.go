package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/data/album"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// readPrompts reads each stage's training data, and the held-out prompts.
func (c *check) readPrompts() {
	for _, l := range c.Lists() {
		if l.Offline {
			c.readAlbum(l)
		} else {
			c.readList(l.Turn, "rollout.prompts", l.Name)
		}
	}
	if c.Evaluate.Prompts != "" {
		c.readList(0, "evaluate.prompts", c.Evaluate.Prompts)
	}
	c.readLessons()
	for i, at := range c.EachStage() {
		n, all := at.Rollout.PromptsPerIteration, prompts.In(c.Prompts["rollout.prompts"], at.Rollout.Prompts)
		if len(all) == 0 || at.Supervised() {
			continue
		}
		if n > len(all) {
			c.RefuseAt(i, "rollout.prompts_per_iteration", fmt.Sprintf("%d prompts an iteration, and %s has %d", n, at.Rollout.Named(), len(all)),
				fmt.Sprintf("write at most %d, or more prompts: one that is there twice in an iteration would be the same samples twice", len(all)))
			continue
		}
		c.checkShares(i, at)
	}
}

// checkShares refuses a share of more prompts than its list has.
func (c *check) checkShares(turn int, at *experiment.Experiment) {
	for k, asked := range at.Rollout.PromptsPerList() {
		name := at.Rollout.Prompts[k]
		if n := len(prompts.In(c.Prompts["rollout.prompts"], []string{name})); n > 0 && asked > float64(n) {
			c.RefuseAt(turn, "rollout.shares", fmt.Sprintf("%s has %d prompts, and its share of an iteration is %.4g", name, n, asked),
				"a smaller share, fewer prompts_per_iteration, or more prompts in it")
			return
		}
	}
}

// readLessons reads the conversations that stages learn from, as a run will.
func (c *check) readLessons() {
	if len(c.Lessons()) == 0 || len(c.Prompts["rollout.prompts"]) == 0 {
		return
	}
	if _, err := c.modality.Prompts(c.Experiment); err != nil {
		c.Fail("rollout.lessons", err)
	}
}

// readList reads a list and looks for the pictures that it names.
func (c *check) readList(turn int, key, path string) {
	list, err := c.Open(path)
	if err != nil {
		c.failList(turn, key, path, err)
		return
	}
	if c.Prompts[key] == nil {
		c.Prompts[key] = list // without a copy, where there is one
	} else {
		c.Prompts[key] = slices.Concat(c.Prompts[key], list)
	}
	c.checkPictured(turn, key, path, list)
	c.checkProtocols(turn, key, path, list)
	if !c.modality.Looks {
		return
	}
	missing := 0
	var first error
	for _, p := range list {
		if err := p.HasPictures(filepath.Dir(path)); err != nil {
			if missing++; first == nil {
				first = fmt.Errorf("prompt %q: %w", p.Text, err)
			}
		}
	}
	if missing > 0 {
		c.RefuseAt(turn, key, fmt.Sprintf("pictures of %d of the %d prompts cannot be opened; the first: %v", missing, len(list), first), "names of pictures begin in the folder of the prompts' file")
	}
}

// failList refuses a list that cannot be opened. Of one that is not there the hint is its source, or a file of its name
// beside the experiment's.
func (c *check) failList(turn int, key, path string, err error) {
	from, known := prompts.SourceOf(path)
	if beside := c.Beside(path); errors.Is(err, fs.ErrNotExist) && beside != "" {
		err = fmt.Errorf("%w\nhint: paths begin in the folder that darkroom is started in; %s exists", err, beside)
	} else if errors.Is(err, fs.ErrNotExist) && known {
		err = fmt.Errorf("%w\nhint: %s", err, from.Hint())
	}
	c.FailAt(turn, key, err)
}

// checkPictured refuses a list's pictures where the model has no use for them.
func (c *check) checkPictured(turn int, key, path string, list []prompts.Prompt) {
	if c.modality.Sampled {
		return
	}
	for _, p := range list {
		if p.Sized() || p.Frames > 0 || p.Negative != nil || len(p.Image) > 0 && !c.modality.Looks {
			c.RefuseAt(turn, key, fmt.Sprintf("%s: prompt %q names the size, the frames or the negative text of a picture, and %s are made of it", path, p.Text, c.modality.Samples),
				"leave width, height, frames and negative out of the list; image, images or meta.picture name the pictures that a question is about")
			return
		}
	}
}

// checkProtocols refuses a prompt whose meta names a protocol that there is not, or that the file cannot play.
func (c *check) checkProtocols(turn int, key, path string, list []prompts.Prompt) {
	if c.Episode == nil {
		return
	}
	for i, p := range list {
		if _, err := c.Episode.Of(p); err != nil {
			c.FailAt(turn, key, fmt.Errorf("%s: prompt %d, %q: %w", path, i+1, p.Text, err))
			return
		}
	}
}

// readAlbum reads a list of pictures that are learned from.
func (c *check) readAlbum(l experiment.List) {
	pages, err := album.Open(l.Name)
	if err != nil {
		c.failList(l.Turn, "rollout.prompts", l.Name, err)
		return
	}
	for i, at := range c.EachStage() {
		if slices.Contains(at.Rollout.Prompts, l.Name) {
			c.checkPages(i, at, l.Name, pages)
		}
	}
	for _, p := range pages {
		p.List = l.Name
		c.Prompts["rollout.prompts"] = append(c.Prompts["rollout.prompts"], p.Prompt)
	}
}

// checkPages compares the number of pictures of a page with that of a group.
func (c *check) checkPages(turn int, at *experiment.Experiment, name string, pages []album.Page) {
	for _, p := range pages {
		if n := len(p.Scores); n != at.Rollout.Group {
			c.RefuseAt(turn, "rollout.group", fmt.Sprintf("%s: %q has %d pictures, and a group has %d", name, p.Text, n, at.Rollout.Group), "group = 2 for pairs, 1 for pictures; a file has one kind")
			return
		}
	}
}

package preflight

import (
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/trainer/album"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// readPrompts reads what is trained on, and what is held out.
func (c *check) readPrompts() {
	if c.Rollout.Offline {
		c.readAlbum()
	} else {
		c.readList("rollout.prompts", c.Rollout.Prompts)
	}
	if c.Evaluate.Prompts != "" {
		c.readList("evaluate.prompts", c.Evaluate.Prompts)
	}
	all := len(c.Lists["rollout.prompts"])
	c.readLessons()
	for i, at := range c.Turns() {
		n := at.Rollout.PromptsPerIteration
		if all == 0 || n <= all || at.Taught() {
			continue
		}
		c.RefuseAt(i, "rollout.prompts_per_iteration", fmt.Sprintf("%d prompts an iteration, and %s has %d", n, c.Rollout.Prompts, all),
			fmt.Sprintf("write at most %d, or more prompts: one that is there twice in an iteration would be the same samples twice", all))
	}
}

// readLessons reads the conversations that stages learn from, as a run will.
func (c *check) readLessons() {
	if len(c.Lessons()) == 0 || len(c.Lists["rollout.prompts"]) == 0 {
		return
	}
	if _, err := c.modality.Prompts(c.Experiment); err != nil {
		c.Fail("rollout.lessons", err)
	}
}

// readList reads a list and looks for the pictures that it names.
func (c *check) readList(key, path string) {
	list, err := c.Open(path)
	if err != nil {
		c.Fail(key, err)
		return
	}
	c.Lists[key] = list
	c.checkPictured(key, path, list)
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
		c.Refuse(key, fmt.Sprintf("pictures of %d of the %d prompts cannot be opened; the first: %v", missing, len(list), first), "names of pictures begin in the folder of the prompts' file")
	}
}

// checkPictured refuses what a list says of pictures where the model makes none.
func (c *check) checkPictured(key, path string, list []prompts.Prompt) {
	if c.modality.Sampled {
		return
	}
	for _, p := range list {
		if p.Sized() || p.Negative != nil || len(p.Image) > 0 {
			c.Refuse(key, fmt.Sprintf("%s: prompt %q names the size, the negative text or the image of a picture, and %s are made of it", path, p.Text, c.modality.Samples),
				"leave width, height, negative and image out of the list; pictures that a question is about stand in meta.picture")
			return
		}
	}
}

// readAlbum reads the pictures that are learned from.
func (c *check) readAlbum() {
	pages, err := album.Open(c.Rollout.Prompts)
	if err != nil {
		c.Fail("rollout.prompts", err)
		return
	}
	for i, at := range c.Turns() {
		c.checkPages(i, at, pages)
	}
	for _, p := range pages {
		c.Lists["rollout.prompts"] = append(c.Lists["rollout.prompts"], p.Prompt)
	}
}

// checkPages compares the number of pictures of a page with that of a group.
func (c *check) checkPages(turn int, at *experiment.Experiment, pages []album.Page) {
	for _, p := range pages {
		if n := len(p.Scores); n != at.Rollout.Group {
			c.RefuseAt(turn, "rollout.group", fmt.Sprintf("%s: %q has %d pictures, and a group has %d", c.Rollout.Prompts, p.Text, n, at.Rollout.Group), "group = 2 for pairs, 1 for pictures; a file has one kind")
			return
		}
	}
}

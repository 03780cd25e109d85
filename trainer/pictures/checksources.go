package pictures

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
)

// Pictures that prompts name to be made of, held against the model before anything is computed.

// checkSources refuses lists whose pictures the network does not read, or cannot.
func (c generator) checkSources(p *pipeline.Pipeline) {
	for _, list := range [][2]string{{"rollout.prompts", c.Named()}, {"evaluate.prompts", c.Evaluate.Prompts}} {
		bad, first := 0, error(nil)
		for _, prompt := range c.Prompts[list[0]] {
			if err := sourceMistake(prompt, prompt.Folder(list[1]), p); err != nil {
				if bad++; first == nil {
					first = fmt.Errorf("prompt %q: %w", prompt.Text, err)
				}
			}
		}
		if bad > 0 {
			c.Refuse(list[0], fmt.Sprintf("%s: %d of %d prompts do not fit; the first: %v", list[1], bad, len(c.Prompts[list[0]]), first),
				`a record is {"prompt": "...", "image": "FILE"}, and names begin in the folder of the list`)
		}
	}
}

// sourceMistake is what is wrong with the pictures that a prompt is to be made of.
func sourceMistake(prompt prompts.Prompt, dir string, p *pipeline.Pipeline) error {
	if _, most := reads(p); most == 0 && len(prompt.Image) == 0 {
		return nil
	}
	if err := countMistake(len(prompt.Sources()), p); err != nil {
		return err
	}
	if err := prompt.HasSources(dir); err != nil {
		return err
	}
	sizes, err := prompt.SourceSizes(dir)
	for i, size := range sizes {
		if err := p.FitsSource(size[0], size[1]); err != nil {
			return fmt.Errorf("picture %d: %w", i+1, err)
		}
	}
	return err
}

// countMistake is what is wrong with how many pictures a prompt names.
func countMistake(n int, p *pipeline.Pipeline) error {
	what := "pictures"
	if p.Clips() {
		what = "clips"
	}
	switch least, most := reads(p); {
	case most == 0 && n > 0:
		return fmt.Errorf("it names an image, and a %s makes %s of texts alone", p.Class(), what)
	case n == 0 && least > 0:
		return fmt.Errorf("it names no image, and a %s makes %s of pictures", p.Class(), what)
	case n < least:
		return fmt.Errorf(`it names %d image, and this network reads a clip's first and last: "image": ["FIRST", "LAST"]`, n)
	case n > most:
		return fmt.Errorf("it names %d images, and a %s reads %d", n, p.Class(), most)
	}
	return nil
}

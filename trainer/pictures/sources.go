package pictures

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
)

// Sources of pictures: those that a prompt's "image" names. They are opened when the prompt is drawn, and their
// latents lie on the disk from then on, named by their pixels. In memory are the sources of the pictures under way,
// and as many more as have room.
//
// A clip begins with its prompt's first picture, and ends with its second where the network reads two.
//
// Invariant (tests): a prompt's pictures have the same bits after they were forgotten.

// sources opens and remembers them.
type sources struct {
	asked    model.Options
	of       *experiment.Experiment
	pipeline *pipeline.Pipeline
	mu       sync.Mutex      // of known sizes: samples of another process are looked at beside a roll
	known    map[int]*source // by the prompt's number
	sizes    map[int]experiment.Size
}

// A source is a prompt's pictures, and the network's inputs from them once they were asked for.
type source struct {
	pictures []*vision.Image
	given    *pipeline.Given
	clips    map[measures]*pipeline.Given // of clips, by their size
}

func newSources(p *pipeline.Pipeline, e *experiment.Experiment, o model.Options) *sources {
	return &sources{asked: o, of: e, pipeline: p, known: map[int]*source{}, sizes: map[int]experiment.Size{}}
}

// reads is how many pictures a prompt must and may name.
func reads(p *pipeline.Pipeline) (least, most int) {
	count := func(is ...bool) (n int) {
		for _, one := range is {
			if one {
				n++
			}
		}
		return n
	}
	if !p.Clips() {
		most, must := p.Edits()
		return count(must), most
	}
	may, must, mayLast, mustLast := p.Gives()
	return count(must, mustLast), count(may, mayLast)
}

// read reports whether the network reads pictures at all.
func (s *sources) read() bool {
	_, most := reads(s.pipeline)
	return most > 0
}

// open is a prompt's pictures; nil where it has none.
func (s *sources) open(n int) (*source, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened(n)
}

func (s *sources) opened(n int) (*source, error) {
	if !s.read() || n >= s.asked.Len() {
		return nil, nil
	}
	if one, ok := s.known[n]; ok {
		return one, nil
	}
	file, prompt := s.of.Named(), s.asked.Prompt(n)
	if n >= len(s.asked.Train) {
		file = s.of.Evaluate.Prompts
	}
	all, err := prompt.OpenSources(prompt.Folder(file))
	if err == nil {
		err = countMistake(len(all), s.pipeline)
	}
	if err != nil {
		return nil, fmt.Errorf("prompt %q: %w", prompt.Text, err)
	}
	var one *source
	if len(all) > 0 {
		one = &source{pictures: all}
	}
	s.known[n] = one
	return one, nil
}

// pictures are those that a prompt names.
func (s *sources) pictures(n int) ([]*vision.Image, error) {
	one, err := s.open(n)
	if one == nil {
		return nil, err
	}
	return one.pictures, nil
}

// givenTo is the network's input from a prompt's pictures in a picture or a clip of a shape.
func (s *sources) givenTo(n int, at pipeline.Shape) (*pipeline.Given, error) {
	if !s.pipeline.Clips() {
		return s.given(n)
	}
	one, err := s.open(n)
	if one == nil || err != nil {
		return nil, err
	}
	of := measures{[2]int{at.Width, at.Height}, at.Frames}
	if one.clips[of] == nil {
		var last *vision.Image
		if len(one.pictures) > 1 {
			last = one.pictures[1]
		}
		g, err := s.pipeline.Give(s.context(), at, one.pictures[0], last)
		if err != nil {
			return nil, fmt.Errorf("prompt %q: %w", s.asked.Prompt(n).Text, err)
		}
		if one.clips == nil {
			one.clips = map[measures]*pipeline.Given{}
		}
		one.clips[of] = g
	}
	return one.clips[of], nil
}

// given is the network's input from a prompt's pictures, for any result; nil where it has none.
func (s *sources) given(n int) (*pipeline.Given, error) {
	if s.pipeline.Clips() {
		return nil, nil
	}
	one, err := s.open(n)
	if one == nil || err != nil || one.given != nil {
		return one.giving(), err
	}
	if one.given, err = s.pipeline.Source(s.context(), one.pictures...); err != nil {
		return nil, fmt.Errorf("prompt %q: %w", s.asked.Prompt(n).Text, err)
	}
	return one.given, nil
}

func (s *source) giving() *pipeline.Given {
	if s == nil {
		return nil
	}
	return s.given
}

func (s *sources) context() context.Context {
	if s.asked.Context == nil {
		return context.Background()
	}
	return s.asked.Context
}

// bytesOf is the memory of a prompt's pictures.
func (s *sources) bytesOf(n int) int64 {
	one := s.known[n]
	if one == nil {
		return 0
	}
	bytes := one.given.Bytes()
	for _, g := range one.clips {
		bytes += g.Bytes()
	}
	for _, m := range one.pictures {
		bytes += int64(len(m.Pix))
	}
	return bytes
}

// keep forgets prompts other than some, where all take more than may be remembered.
func (s *sources) keep(prompts []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := int64(0)
	for n := range s.known {
		sum += s.bytesOf(n)
	}
	if sum <= mostRemembered {
		return
	}
	kept := map[int]*source{}
	for _, n := range prompts {
		if one, ok := s.known[n]; ok {
			kept[n] = one
		}
	}
	s.known = kept
}

// sizeOf is that of a prompt's picture where nothing else is asked for. A file that cannot be read is an error when the
// picture is made.
func (s *sources) sizeOf(n int, otherwise experiment.Size) experiment.Size {
	s.mu.Lock()
	defer s.mu.Unlock()
	if size, ok := s.sizes[n]; ok {
		return size
	}
	one, err := s.opened(n)
	if err != nil || one == nil {
		return otherwise
	}
	height, width := s.pipeline.SizeFor(one.pictures...)
	s.sizes[n] = experiment.Size{width, height}
	return s.sizes[n]
}

// sourcesFor are Policy.Sources of p.
func (m *Model) sourcesFor(p *Policy) func(keys []trainer.Key) ([]*pipeline.Given, error) {
	if !m.sources.read() {
		return nil
	}
	return func(keys []trainer.Key) ([]*pipeline.Given, error) {
		m.sources.keep(promptsOf(keys))
		all := make([]*pipeline.Given, len(keys))
		for i, k := range keys {
			err := p.context().Err()
			if err == nil {
				all[i], err = m.sources.givenTo(k.Prompt, p.form(k).At)
			}
			if err != nil {
				return nil, err
			}
		}
		return all, nil
	}
}

// follows reports whether an iteration's pictures have the sizes of those that they are made of.
func (m *Model) follows(settings experiment.Settings) bool {
	return m.sources.read() && !m.Pipeline.Clips() && len(settings.PictureSizes()) == 0
}

// formLike is the form of a size that pictures have by their sources; it is made when it is first met. Sources of an
// impossible size are an error when they are read, which is before anything is made in this form.
func (m *Model) formLike(settings experiment.Settings, forms map[extent]*Form, one, otherwise extent) *Form {
	if forms[one] == nil {
		f, err := m.formOf(settings, one)
		if err != nil {
			return forms[otherwise]
		}
		forms[one] = f
	}
	return forms[one]
}

// looked is of how many prompts the pictures are opened to predict sizes.
const looked = 64

// heaviest are numbers of the first prompts, those with the most pixels of sources first. Where the network reads no
// pictures, all are alike.
func (s *sources) heaviest(prompts int) (all []int, err error) {
	if s.read() {
		prompts = min(looked, prompts)
	}
	pixels := make([]int, prompts)
	for n := range prompts {
		all = append(all, n)
		pictures, err := s.pictures(n)
		if err != nil {
			return nil, err
		}
		for _, m := range pictures {
			pixels[n] += m.Width * m.Height
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return pixels[b] - pixels[a] })
	return all, nil
}

// someSizes are those of the first prompts' pictures, where sizes follow these.
func (s *sources) someSizes(follow bool) (all []experiment.Size) {
	none := experiment.Size{}
	for n := 0; follow && n < min(looked, s.asked.Len()); n++ {
		if size := s.sizeOf(n, none); size != none {
			all = append(all, size)
		}
	}
	return all
}

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

// sourceMistake is a mistake in a prompt's sources.
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

// countMistake is a wrong number of a prompt's pictures.
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

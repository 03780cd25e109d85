package report

import (
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Settings are what follows from a run's config.toml alone. A reader that comes back to a run hands in the same ones:
// they are worked out again only where the file says something else.
type Settings struct {
	text       string
	experiment *experiment.Experiment // nil where this version cannot read it
	plan       *plan
	planned    bool
}

func (s *Settings) read(config string) {
	if s.text == config && config != "" {
		return
	}
	*s = Settings{text: config}
	if e, err := experiment.Parse(folder.Config, []byte(config), nil); err == nil {
		s.experiment = e
	}
}

// planOf is what they amount to; nil where this version cannot say it.
func (s *Settings) planOf() *plan {
	if s != nil && !s.planned && s.experiment != nil {
		s.plan, s.planned = planned(s.experiment), true
	}
	if s == nil {
		return nil
	}
	return s.plan
}

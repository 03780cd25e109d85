package report

import (
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Settings are computed from a run's config.toml alone. A reader that comes back to a run hands in the same ones:
// they are computed again only for a changed file.
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

// planOf returns their plan; nil where this version cannot make one.
func (s *Settings) planOf() *plan {
	if s != nil && !s.planned && s.experiment != nil {
		s.plan, s.planned = planned(s.experiment), true
	}
	if s == nil {
		return nil
	}
	return s.plan
}

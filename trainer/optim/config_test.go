package optim

import (
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/config"
)

// TestConfig: the options can be written as a user would, and what is wrong with
// them is found at its place.
func TestConfig(t *testing.T) {
	read := func(text string) (Options, error) {
		doc := config.Parse("run.toml", []byte(text))
		o := Defaults()
		doc.Decode("optim", &o)
		o.Check(func(key, problem, hint string) { doc.Report("optim."+key, problem, hint) })
		return o, doc.Err()
	}
	o, err := read("[optim]\nlr = 1e-4\nbetas = [0.9, 0.95]\nschedule = \"cosine\"\nwarmup = 5\nema = 0.9\nema_every = 8\nema_shape = { kind = \"ramp\", rate = 0.01 }\n")
	if err != nil || o.LR != 1e-4 || o.Betas[1] != 0.95 || o.EMAShape.Rate != 0.01 || o.GradClip != 1 {
		t.Errorf("%+v, %v", o, err)
	}
	_, err = read("[optim]\nlr = 0\nbetas = [0.9, 1.0]\nschedule = \"cosin\"\neps = 1e-310\n") // 0 as float32, and 0/0 of what has no gradient yet
	for _, says := range []string{"lr", "betas", "cosine", "optim.eps"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not mention %q", err, says)
		}
	}
}

package experiment

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/config"
)

// Track is [track]: train starts a process for each of As, which follows the run's folder. A process that fails
// costs the run nothing.
type Track struct {
	As    []string `toml:"as,single" doc:"what follows the run: tensorboard, trackio, wandb, csv, parquet, or mlflow=URL, a server"`
	Names string   `toml:"names" enum:"darkroom,verl,trl" doc:"what numbers are called there: as here, or as those projects call them"`
	Out   string   `toml:"out" doc:"the folder below which each of them writes; empty: the run's own"`
}

// Tracked are what a run can be followed as.
func Tracked() []string {
	return []string{"tensorboard", "trackio", "wandb", "csv", "parquet", "mlflow=URL"}
}

// check: each is known, and there once.
func (t Track) check(r report) {
	for i, as := range t.As {
		switch {
		case slices.Contains(t.As[:i], as):
			r("as", fmt.Sprintf("%q is there twice", as), "leave one of them out")
		case strings.HasPrefix(as, "mlflow="):
			if u, err := url.Parse(strings.TrimPrefix(as, "mlflow=")); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				r("as", fmt.Sprintf("%q names no server", as), "write mlflow=http://HOST:5000")
			}
		case !slices.Contains(Tracked(), as) || as == "mlflow=URL":
			hint := "one of " + strings.Join(Tracked(), ", ")
			if near := config.Near(as, Tracked()); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			r("as", fmt.Sprintf("a run is not followed as %q", as), hint)
		}
	}
}

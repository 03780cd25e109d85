package experiment

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/darkroom-rl/darkroom/vision/tools/program"
)

// outside is what rewards and tools need of the machine and is not there. A plan may be made on another
// machine than the one that trains, so that these are warnings; training refuses to begin.
func (e *Experiment) outside() []string {
	var all []string
	for _, w := range e.Rewards {
		switch _, err := exec.LookPath(w.Path); {
		case err == nil || w.Path == "":
		case w.Name == "ocr":
			all = append(all, fmt.Sprintf("reward ocr reads by %q, which is not installed here (Debian: tesseract-ocr); without path the built-in reader reads drawn words", w.Path))
		case w.Name == "exec":
			all = append(all, fmt.Sprintf("reward exec needs the program %q, which is not here: %v", w.Path, err))
		}
		if w.KeyEnv != "" && os.Getenv(w.KeyEnv) == "" {
			all = append(all, fmt.Sprintf("reward %s reads its key from the environment variable %s, which is empty here", w.Name, w.KeyEnv))
		}
	}
	if e.Episode != nil && e.Episode.Exec != nil {
		x := e.Episode.Exec
		if _, err := exec.LookPath(x.Command[0]); err != nil {
			all = append(all, fmt.Sprintf("episode.exec needs the program %q, which is not here: %v; one that works: %s", x.Command[0], err, program.Example))
		}
		if x.Bare() {
			all = append(all, fmt.Sprintf("episode.exec runs the model's code by %q with no sandbox around it: it may read, send and delete what you may", x.Command[0]))
		}
	}
	return all
}

package experiment

import (
	"fmt"
	"os"
	"os/exec"
)

// outside is what rewards need of the machine and is not there. A plan may be made on another
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
	return all
}

package driver

import (
	"os"
	"path/filepath"
)

// InEnvironments are a library's files in the active environments of Python and conda: as a wheel of pip installs it,
// below site-packages, and as conda does, in lib.
func InEnvironments(wheel, name string) (files []string) {
	for _, variable := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		env := os.Getenv(variable)
		if env == "" {
			continue
		}
		for _, pattern := range []string{filepath.Join("lib/python3*/site-packages", wheel), filepath.Join("lib", name)} {
			found, _ := filepath.Glob(filepath.Join(env, pattern)) // only a bad pattern is an error
			files = append(files, found...)
		}
	}
	return files
}

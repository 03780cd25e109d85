// Package version is the build of this binary.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Build is the linker's record of this binary.
type Build struct {
	Version  string `json:"version"`            // of the module; "(devel)" for a working copy
	Revision string `json:"revision,omitempty"` // of the source, if it was stamped
	Modified bool   `json:"modified,omitempty"` // the working copy had changes
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// Read reads it.
func Read() Build {
	b := Build{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b Build) String() string {
	s := "darkroom " + b.Version
	if b.Revision != "" {
		s += " revision " + b.Revision[:min(12, len(b.Revision))]
	}
	if b.Modified {
		s += " (modified)"
	}
	return fmt.Sprintf("%s, %s, %s/%s", s, b.Go, b.OS, b.Arch)
}

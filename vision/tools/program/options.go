package program

import (
	"path/filepath"
	"strings"
)

// Options are [episode.exec].
type Options struct {
	Command  []string `toml:"command" doc:"what runs the model's code: an interpreter in a sandbox of your choice, with its arguments; {folder} is the episode's folder; - at the end is where the interpreter is given its program"`
	Timeout  float64  `toml:"timeout" range:"(0,86400]" doc:"seconds for one block of code"`
	Output   int      `toml:"output" range:"[1,1e7]" doc:"bytes of what a block prints that the model reads"`
	Pictures int      `toml:"pictures" range:"[0,64]" doc:"of one block that the model sees"`
	Errors   string   `toml:"errors" enum:"tell,end" doc:"what becomes of code that raised, or cannot be read: the model sees the error and continues, or the episode ends, as published"`
	Modules  []string `toml:"modules" doc:"what the interpreter must be able to import: looked for before the run"`
}

// SetDefaults is PyVision-RL's: thirty seconds, and the modules that its prompt promises. It has
// no limits of what is printed and shown but those of the whole episode; and its training ends an
// episode at the first error, which is told here.
func (o *Options) SetDefaults() {
	*o = Options{Timeout: 30, Output: 16384, Pictures: 8, Errors: "tell", Modules: []string{"matplotlib", "PIL", "numpy"}}
}

// Check reports what cannot be run.
func (o *Options) Check(report func(key, problem, hint string)) {
	if len(o.Command) == 0 || o.Command[0] == "" {
		report("command", "there is nothing to run the model's code with", Example)
	}
}

// Example is a command that works where bubblewrap and a Python with the modules are installed:
// no network, no files but the system's to read and the episode's folder to write. The two of /etc
// are what Debian's numpy and matplotlib do not start without.
const Example = `write command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr", ` +
	`"--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", ` +
	`"--ro-bind-try", "/etc/alternatives", "/etc/alternatives", "--ro-bind-try", "/etc/matplotlibrc", "/etc/matplotlibrc", ` +
	`"--bind", "{folder}", "{folder}", "--chdir", "{folder}", "python3", "-"] (Debian: bubblewrap, python3-matplotlib, python3-pil)`

// Bare reports whether the command is an interpreter with nothing around it.
func (o *Options) Bare() bool {
	return len(o.Command) > 0 && strings.HasPrefix(filepath.Base(o.Command[0]), "python")
}

// Words are the command as people read it.
func (o *Options) Words() string { return strings.Join(o.Command, " ") }

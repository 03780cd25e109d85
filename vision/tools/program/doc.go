// Package program runs the code that a model writes, by a command that someone configured.
//
//	o := &program.Options{Command: []string{"bwrap", ..., "python3", "-"}, ...}  // [episode.exec]
//	python, err := program.Probe(ctx, o)                   // does the command work here, and its version
//	s := program.Begin(ctx, o, program.Episode{...})       // an episode's interpreter: nothing is started yet
//	done, err := s.Run("print(6*7)")                       // a block of code: it is a tools.Interpreter
//	s.Close()                                              // its processes are killed, its folder is deleted
//
// In an experiment's file, with the system prompt that tells the model of it:
//
//	[episode]
//	protocol = "pyvision"
//	system = "... image_clue_0 is the first picture ... <code>\n```python ... plt.show() ... <answer>"
//	[episode.exec]
//	command = ["bwrap", "--unshare-all", ..., "python3", "-"]   // Example in session.go works
//	timeout = 30
//
// Start with session.go: settings, and the result of a block, whatever it does. process.go starts one process with its
// command and environment, and exchanges lines of JSON with it; worker.py is the interpreter's program, with the
// protocol.
//
// The sandbox is the command: this package takes care of time, of how much comes back, and that nothing is left
// behind, and of nothing else. The command decides which files code may read and delete, which hosts it may reach,
// and how much memory and how many processes it may take: bwrap's options, prlimit before it, a container. Without a
// sandbox in it, code has the user's rights. A sandbox that makes processes of its own must end them when it is
// killed (bwrap's --die-with-parent).
//
// An episode has a folder of its own, which is the working directory, HOME and TMPDIR; {folder}
// in the command stands for its path. The environment is PATH and constants (process.go).
//
// An interpreter starts with an episode's first code, and stays until its end: half a second to a
// second of work for Python with matplotlib. matplotlib also lists the machine's fonts anew in every
// HOME; where there are many, MPLCONFIGDIR of the sandbox (bwrap's --setenv) can name a finished list.
//
// Results of code should depend on the episode alone: an iteration that was killed is rolled again when the run goes
// on, and leaves the same bytes if its programs print the same. So random, numpy.random and the hashes of strings
// begin at seeds of the episode's key. Code that looks at clocks, at entropy (os.urandom, numpy.random.default_rng
// without a seed), at addresses of objects, at the network, or that takes about as long as the time limit, may print
// something else the second time; the run goes on rightly from that, with other bytes.
package program

// Package experiment is the TOML file that a user writes: its root, what its names
// mean, what cannot be combined, and what it amounts to before anything runs.
//
// Start with experiment.go, the root; each table of the file is a struct in the file of its name, or in the package
// that it configures. Solvers, schedules, windows, trees, estimators, objectives, rewards and monitors are values of
// packages sde, advantage, loss, rewards and ledger; names.go lists all names, and readers.go computes who reads a key.
// presets/ holds the settings of published systems as TOML. checks.go refuses what does not go together, warnings.go
// warns of what has no effect, settings.go has an iteration's settings, and plan.go what `darkroom plan` prints.
//
// What counts is, from weakest to strongest: the defaults, the preset of the whole
// file, the preset of a table, the file, --set.
package experiment

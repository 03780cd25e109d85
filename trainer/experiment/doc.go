// Package experiment is the TOML file that a user writes: its root, the meaning of its names, the combinations that
// are refused, and its plan before anything runs.
//
// Start with experiment.go, the root; each table of the file is a struct in the file of its name, or in the package
// that it configures. Solvers, schedules, windows, trees, estimators, objectives, rewards and monitors are values of
// packages sde, advantage, loss, rewards and ledger; names.go lists all names, and readers.go computes who reads a
// key. presets/ holds the settings of published systems as TOML. checks.go refuses contradictions, warnings.go warns
// of settings without effect, settings.go has an iteration's settings, and plan.go the output of `darkroom plan`.
//
// The order of precedence is, from weakest to strongest: the defaults, the preset of the whole file, the preset of a
// table, the file, --set.
package experiment

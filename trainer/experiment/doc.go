// Package experiment is the TOML file that a user writes: its root, what its names
// mean, what cannot be combined, and what it amounts to before anything runs.
//
// Start with experiment.go, the root; each table of the file is a struct in the
// file of its name, or in the package that it configures. Solvers, schedules,
// estimators and objectives are values of packages sde, advantage and loss; names.go
// lists all names, readers.go says who reads a key, presets/ holds the settings of published systems as TOML
// that anyone could have written, checks.go what no single table can know,
// translate.go what becomes of a file in the packages that compute, and plan.go what
// `darkroom plan` prints.
//
// What counts is, from weakest to strongest: the defaults, the preset of the whole
// file, the preset of a table, the file, --set.
package experiment

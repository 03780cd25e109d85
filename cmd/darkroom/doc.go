// Command darkroom develops pictures: it post-trains image, video and
// vision-language models with reinforcement learning.
//
// Each subcommand lives in a folder or a file of its name. Start at root.go, which lists them; main.go turns their
// errors into an exit code (cmd/internal/exits). Package console prints their results, as a table for people or as
// JSON with --json; packages inputs, devices and panel read the values of flags. Scripts of command lines are in
// testdata/script.
package main

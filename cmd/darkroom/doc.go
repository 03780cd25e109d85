// Command darkroom develops pictures: it post-trains image, video and
// vision-language models with reinforcement learning.
//
// Each subcommand lives in a file of its name. Start at root.go, which lists
// them; main.go turns what they return into an exit code; output.go prints
// their results, as a table for people or as JSON with --json.
package main

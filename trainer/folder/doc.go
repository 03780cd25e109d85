// Package folder is a run on the disk: what is appended to, what a checkpoint holds, and the
// promise that a run which was killed at any moment goes on as if it never had been.
//
//	config.toml     the resolved experiment
//	manifest.json   version, machine, seeds, hashes
//	products.json   what computes products, where a device had a choice
//	ledger.jsonl    a line an iteration; timing.jsonl what depends on clock or machine
//	samples.jsonl   a line a sample
//	images/         pictures on the way
//	checkpoints/    NNNNNN/, each with the adapter in PEFT's layout, state, and SHA256SUMS
//	report.html, result.json
//
// Start with Open in folder.go. lines.go appends, save.go saves checkpoints, checkpoint.go finds
// them, used.go says what a new run may write over, links.go refuses what leads out of the folder,
// lock.go keeps a second process out. What lines hold is the caller's.
//
// Files that are appended to are cut back to where the checkpoint saw them end, so a line that
// was torn, or written after it, does not stay. The checkpoint knows the sum of what stands before.
package folder

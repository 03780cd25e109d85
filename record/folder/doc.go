// Package folder is a run on the disk: append-only files, checkpoints, and the promise that a run
// killed at any moment resumes to the same bytes.
//
//	config.toml     the resolved experiment
//	manifest.json   version, machine, seeds, hashes
//	products.json   the algorithms of products, where a device had a choice
//	ledger.jsonl    a line an iteration; timing.jsonl the numbers that depend on clock or machine
//	samples.jsonl   a line a sample
//	images/         pictures on the way
//	checkpoints/    NNNNNN/, each with the adapter in PEFT's layout, state, and SHA256SUMS
//	report.html, result.json
//
// Start with Open in folder.go. lines.go appends, save.go saves checkpoints, checkpoint.go finds them, used.go lists
// the files that a new run may write over. Open keeps a second process out, Own refuses links that lead out of the
// folder. The caller decides the content of lines.
//
// Resume cuts append-only files back to the length that the checkpoint recorded, which removes torn lines and
// lines written after it. The checkpoint also holds a checksum of the bytes before that point.
package folder

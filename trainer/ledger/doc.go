// Package ledger is what a run writes about itself, and how that is read again: a line an iteration in
// ledger.jsonl, a line a sample in samples.jsonl, seconds in timing.jsonl, conversations in
// transcripts.jsonl, and the end in result.json.
//
//	lines, abandoned, err := ledger.Read(filepath.Join(dir, "ledger.jsonl"))
//	reward, ok := lines[0].Value("heldout.total")
//
// Start with Line in line.go. value.go has the names by which monitors watch a line's numbers, spread.go
// what is said of many numbers at once. A line holds nothing that depends on the clock or on the machine;
// timing.go has what does.
package ledger

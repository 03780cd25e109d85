// Package ledger writes and reads a run's records: a line an iteration in ledger.jsonl, a line a sample in
// samples.jsonl, seconds in timing.jsonl, conversations in transcripts.jsonl, and the outcome in result.json.
//
//	lines, abandoned, err := ledger.Read(filepath.Join(dir, "ledger.jsonl"))
//	reward, ok := lines[0].Value("heldout.total")
//
// Start with Line in line.go. metric.go has the names by which monitors watch a line's numbers; spread.go
// summarises many numbers. A Line holds nothing that depends on the clock or the machine; such numbers are in
// TimingLine.
package ledger

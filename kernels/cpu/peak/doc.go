// Package peak measures this machine's best: fp32 fused multiply-adds, bf16 products, and reading memory. Benchmarks
// divide by these figures, and doctor prints them.
//
// Start with peak.go. Each probe is a loop of nothing but the instruction in
// question, on data that is not zero (zeros draw less power, so the clock would
// be higher than in real work), run in calls of some ten microseconds, for a few
// milliseconds, several times; the best run counts.
package peak

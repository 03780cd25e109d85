// Package diagnosis says why a reward may stay flat, from what a run measured of its first iteration: how much of the
// gradient each step keeps, how sure a group is of an advantage's sign, whether samples of a prompt differ at all, and
// whether the clip range, the optimiser or rounding swallows the step. It is plain mathematics, and knows no network.
//
//	m := diagnosis.Measured{Group: 4, Groups: 8, Dead: 6, ...}
//	for _, f := range m.Findings() { fmt.Println(f) } // what holds, by which numbers, and the setting that mends it
//
// Start at Measured; keeps.go and sign.go have the formulas.
package diagnosis

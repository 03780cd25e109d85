// Package choice finds the fastest path of each family of operations by measurement.
//
// Every path has the same bits, and the list of a CPU's features does not say which one is fastest: VDPBF16PS has twice
// the rate of fp32 multiply-adds on one CPU, and half of it on another.
//
// Start with Measure (times of all paths) and Table.Mix (the choice). A File keeps tables, since programs start more
// often than CPUs change.
package choice

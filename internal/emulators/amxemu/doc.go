// Package amxemu runs tests of path AMX on CPUs without AMX: the test program starts
// itself again as a traced process, and each tile instruction, which is illegal there,
// is carried out by the tracer, on the process's registers and memory. So the test covers the bytes that ship.
//
// Start with Run. Only tests use this package; no shipped package imports it.
//
// A product of tiles follows the rule that was verified against hardware: for every
// output E = O = +0; E = fma(a[2i], b[2i], E) and O = fma(a[2i+1], b[2i+1], O) for
// ascending i; then C = C + (E + O), denormals flushed at every step.
package amxemu

// Package portable has the elementary functions of float64 with the same bits on every machine.
//
// Package math does not promise that. Its Exp on x86-64 is one assembly routine with and another without fused
// multiply-adds, on arm64 a third; its functions in plain Go are compiled with fused multiply-adds on arm64 and with
// GOAMD64=v3. A ratio, a sampled token or a step of a schedule must not depend on that, so
// sde and trainer import this package instead; arithmetic_test.go in the repository's root forbids math's
// functions there. Functions that IEEE 754 defines exactly (Sqrt, FMA, Floor, Ldexp, Frexp, Mod) stay with math.
//
// Start with Exp. Every operation is rounded by itself: a product that may be added is written float64(a*b), also
// where it is kept in a variable first, or is fused by name with math.FMA.
//
// The algorithms are those of Go's math package (see LICENSE; after FreeBSD's msun and Cephes), so that results on an
// x86-64 CPU with FMA are the bits that math returned there.
//
// Invariants (tests): within one unit in the last place of the exact value (Exp of large arguments: 1.5), by math/big;
// the bits of package math where it is built without fusion; recorded digests, compared in every build.
package portable

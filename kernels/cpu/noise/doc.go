// Package noise draws package rng's words and normals fast. The definition is
// rng; every path returns its bits.
//
// The assembly is written by the program in gen, which follows rng line by line;
// a group of blocks is drawn at a time. Words before the first whole block and
// after the last whole group are drawn by rng itself.
package noise

//go:generate go run ./gen

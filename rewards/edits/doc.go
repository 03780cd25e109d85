// Package edits counts how far one text is from another: in code points, never in bytes, with
// neither normalisation nor folding of case, which are the caller's to choose.
//
// Start with distance.go; rates.go has the error rates of speech and text recognition.
package edits

// Package pytext reads text the way Python reads it.
//
// What language models write is judged by published programs, and those are written in Python:
// what str.strip removes, which texts float takes, that json.loads knows NaN, decide whether an
// answer counts. Go differs in each of these, so the rules are here, once.
//
// Start with text.go (white space, case), number.go (float, isdigit), json.go (json.loads),
// dumps.go (json.dumps, repr of a float) and values.go (repr, str, types of values).
package pytext

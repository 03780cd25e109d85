// Package config reads strict TOML into tagged structs, and says all that is wrong with a file at once, with line,
// column and a hint. It knows no field of ours, and imports nothing of ours: configurable fields have tags.
//
//	type Options struct {
//		ClipRange float64  `toml:"clip_range" range:"(0,1]" doc:"how far the ratio may go from 1"`
//		Mode      string   `toml:"mode" enum:"mean,sum" doc:"how a group's losses are joined"`
//		Train     []string `toml:"train,single"`   // a list, or one value of it
//		Name      string   `toml:"name,required"`  // must be written, and not empty
//		Stages    []Stage  `toml:"stage,later"`    // known here, decoded on its own
//	}
//
// A field without a toml tag is not configured; the fields of an embedded struct are those of its owner. range holds
// for every number of a list, enum for every string. Its ends are included with a square bracket, and without a
// bracket. Numbers are never NaN, and infinite only where a square bracket says so.
// An element of a list of tables begins as its SetDefaults method leaves it.
//
// Keys lists all keys of a struct with their tags, for lists, documents and checks. A tag of="..." is passed on as it
// is: it names who reads a key, in words of the struct's owner.
//
// Parse makes a Document of a text, Set adds overrides of a command line, Decode fills structs, Report adds mistakes
// that only an owner can find, and Err is all the mistakes, sorted by position. Write is the way back. Start with
// document.go; mistake.go has the format of messages.
package config

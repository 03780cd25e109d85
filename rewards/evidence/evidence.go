// Package evidence has the reasons of a score, for people. A run's record keeps them, and is read without the networks
// of its rewards.
package evidence

import "github.com/darkroom-rl/darkroom/rewards/boxes"

// A Reason is one thing that a score rests on.
type Reason struct {
	What  string     `json:"what"`           // "found", "asked for", "read", "judge", "format" ...
	Text  string     `json:"text,omitempty"` // a label, words
	Box   *boxes.Box `json:"box,omitempty"`  // in pixels
	Value float64    `json:"value,omitempty"`
}

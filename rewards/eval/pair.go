package eval

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards"
)

// A Pair is two samples of one prompt, and which is better.
type Pair struct {
	Prompt string
	Kind   string // of difference, such as "blur"; "" where nobody said
	A, B   Sample // of the prompt
	Better Better
}

// A Sample is an item with a name: what has the same name under one prompt is the same sample.
// It is opened when it is asked about, so that a set may be larger than memory.
type Sample struct {
	Name string
	Open func() (rewards.Item, error)
}

// Held is a sample that lies in memory.
func Held(name string, item rewards.Item) Sample {
	return Sample{name, func() (rewards.Item, error) { return item, nil }}
}

// Better says which of a pair is.
type Better int8

// The three answers.
const (
	Tie Better = iota
	First
	Second
)

// ParseBetter reads "a", "b" and "tie".
func ParseBetter(text string) (Better, error) {
	switch text {
	case "a":
		return First, nil
	case "b":
		return Second, nil
	case "tie":
		return Tie, nil
	}
	return Tie, fmt.Errorf(`better is %q: it is "a", "b" or "tie"`, text)
}

// sign is 1 where the first is better, -1 where the second is.
func (b Better) sign() float64 { return [...]float64{0, 1, -1}[b] }

// What samples are.
const (
	Pictures = "pictures"
	Moving   = "clips"
	Replies  = "replies"
)

// A Set is pairs with a name, all of one kind.
type Set struct {
	Name  string
	Of    string // Pictures, Moving or Replies
	Pairs []Pair
}

// prompts numbers the prompts of pairs as they come.
func prompts(pairs []Pair) (of []int, n int) {
	number := map[string]int{}
	for _, p := range pairs {
		k, ok := number[p.Prompt]
		if !ok {
			k = len(number)
			number[p.Prompt] = k
		}
		of = append(of, k)
	}
	return of, len(number)
}

package answers

import (
	"context"
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: a reply that repeats itself is punished by the share of its n-grams that came before:
//
//	-(1 - different/all)
//
// over tokens (TRL: a Penalty of any size, 0 where there are fewer than n), or over six words in
// lower case, or, where the reply holds a JSON list of boxes, over boxes with their labels
// (VLM-R1). Upstream repairs broken JSON first; here broken JSON counts as text.
// Invariants (tests): never above 0; a reply without repetition is 0.
type Repetition struct {
	Of      string  `toml:"of" enum:"words,tokens" doc:"words of the last turn (boxes, where it lists some), or tokens of all turns"`
	N       int     `toml:"n" range:"[1,1000]" doc:"words or tokens that count as one"`
	Penalty float64 `toml:"penalty" range:"[-1e6,0]" doc:"where everything came before"`
}

// SetDefaults is VLM-R1's.
func (r *Repetition) SetDefaults() { *r = Repetition{Of: "words", N: 6, Penalty: -1} }

// Score judges a conversation.
func (r Repetition) Score(_ context.Context, item rewards.Item) (rewards.Score, error) {
	reply, err := lastTurn(item)
	if err != nil {
		return rewards.Score{}, err
	}
	if r.Of == "words" {
		return judged(r.Words(reply), "reply", reply), nil
	}
	if len(item.Transcript.Tokens) == 0 {
		return rewards.Score{}, errTokens
	}
	return judged(r.Tokens(item.Transcript.Tokens), "reply", reply), nil
}

var (
	fencedJSON = regexp.MustCompile("(?s)```json(.*?)```")
	fenced     = regexp.MustCompile("(?s)```(.*?)```")
	boxList    = regexp.MustCompile(`(?s)(\[` + pytext.SpaceClass + `*\{.*?"bbox_2d".*?"label".*?\}` + pytext.SpaceClass + `*\])`)
)

// Words judges words or boxes.
func (r Repetition) Words(reply string) float64 {
	if list, ok := boxesIn(reply); ok {
		var said []string
		for _, item := range list {
			o, _ := item.(pytext.Object)
			box, placed := o["bbox_2d"]
			label, named := o["label"]
			if placed && named {
				said = append(said, written(box)+"_"+written(label))
			}
		}
		return repeated(said, 1, r.Penalty)
	}
	return repeated(pytext.Fields(pytext.Lower(reply)), r.N, r.Penalty)
}

// Tokens judges tokens.
func (r Repetition) Tokens(tokens []int) float64 { return repeated(tokens, r.N, r.Penalty) }

// repeated is penalty times the share of n-grams that are not new.
func repeated[E comparable](items []E, n int, penalty float64) float64 {
	all := len(items) - n + 1
	if n < 1 || all < 1 {
		return 0
	}
	// The number of an n-gram's beginning and its last element identify it.
	ids, of := map[[2]any]int{}, make([]int, len(items))
	for i, e := range items {
		of[i] = numbered(ids, [2]any{0, e})
	}
	for length := 2; length <= n; length++ {
		for i := range len(items) - length + 1 {
			of[i] = numbered(ids, [2]any{of[i], items[i+length-1]})
		}
	}
	different := map[int]bool{}
	for _, id := range of[:all] {
		different[id] = true
	}
	if len(different) == all {
		return 0
	}
	return penalty * (1 - float64(len(different))/float64(all))
}

// numbered gives equal things equal numbers.
func numbered(ids map[[2]any]int, key [2]any) int {
	id, ok := ids[key]
	if !ok {
		id = len(ids) + 1
		ids[key] = id
	}
	return id
}

// boxesIn is the JSON list that a reply holds: fenced and called so, fenced, or bare.
func boxesIn(reply string) ([]any, bool) {
	text, ok := firstIn(fencedJSON, reply)
	if text = pytext.Strip(text); !ok {
		text, _ = firstIn(fenced, reply)
		if text = pytext.Strip(text); text == "" {
			text, _ = firstIn(boxList, reply)
		}
	}
	v, err := pytext.JSON(text)
	list, isList := v.([]any)
	return list, err == nil && isList && len(list) > 0
}

// written is a value as text that differs where values do.
func written(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case pytext.Number:
		return v.String()
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = written(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	}
	return "{...}"
}

// RepetitionKey is the table of Repetition.
type RepetitionKey struct {
	Repetition *Repetition `toml:"repetition" doc:"of reward repetition: what counts as repeated, and what it costs"`
}

// RepetitionKind is reward repetition.
var RepetitionKind = rewards.Kind{
	Name:    "repetition",
	Card:    "What a reply says again: minus the share of words or tokens that came before (VLM-R1, TRL).",
	Paper:   "Demystifying Long CoT (Yeo et al., 2025)",
	Cases:   []string{"vlm.reward_repetition_ids", "vlm.reward_repetition_words"},
	Judges:  rewards.Replies,
	Traits:  rewards.Rule,
	Options: RepetitionKey{},
	Open: rewards.Opens(func(k RepetitionKey, _ rewards.Bench) (rewards.Opened, error) {
		return rewards.One(config.Filled(k.Repetition)), nil
	}),
}

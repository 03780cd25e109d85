package rewards

import (
	"encoding/json"
	"fmt"
)

// A Place is a relation to what an earlier clause found: ["left of", 0].
type Place struct {
	Relation string
	Target   int // number of the clause
}

// UnmarshalJSON reads the pair.
func (p *Place) UnmarshalJSON(raw []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(raw, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("a position reads like [\"left of\", 0], not %.80s", raw)
	}
	if err := json.Unmarshal(pair[0], &p.Relation); err != nil {
		return fmt.Errorf("a position's relation: %w", err)
	}
	if err := json.Unmarshal(pair[1], &p.Target); err != nil {
		return fmt.Errorf("a position's target: %w", err)
	}
	return nil
}

package prompts

import (
	"fmt"
	"math"
)

// A PassRates filter leaves out prompts that the untrained model always or never solves (Qwen3-VL:
// of 16 answers at least one right, and no more than 90 %).
type PassRates struct {
	Samples int     `toml:"samples" range:"[1,1e6]" doc:"of each prompt, made once before training"`
	Success float64 `toml:"success" doc:"the total from which a sample has passed"`
	Above   float64 `toml:"above" range:"[0,1)" doc:"a prompt's share of passed samples must be above"`
	AtMost  float64 `toml:"at_most" range:"(0,1]" doc:"and at most this"`
	Path    string  `toml:"path" doc:"a pass_rates.jsonl of another run, instead of measuring"`
}

// Card describes the choice and names its source.
func (PassRates) Card() string {
	return "Prompts that the untrained model always or never solves are left out before training (Qwen3-VL); rates are measured once, or read from a file."
}

// Words are the choice in a plan.
func (f PassRates) Words() string {
	how := fmt.Sprintf("measured with %d samples each", f.Samples)
	switch {
	case f.Path != "":
		how = "read from " + f.Path
	case f.Samples == 1:
		how = "measured with 1 sample each"
	}
	return fmt.Sprintf("prompts with a pass rate above %v and at most %v (%s)", f.Above, f.AtMost, how)
}

// SetDefaults is Qwen3-VL's, for rewards of right and wrong.
func (f *PassRates) SetDefaults() { *f = PassRates{Samples: 16, Success: 1, AtMost: 0.9} }

// Check reports bounds that keep nothing.
func (f PassRates) Check(report func(key, problem, hint string)) {
	if f.Above >= f.AtMost {
		report("above|at_most", "no prompt's pass rate lies between them", "above = 0 and at_most = 0.9 drop what never or nearly always passes")
	}
}

// A PassRate is a line of pass_rates.jsonl: how many of a prompt's samples passed.
type PassRate struct {
	Prompt  string `json:"prompt"`
	Passed  int    `json:"passed"`
	Of      int    `json:"of"` // that had a score
	Missing int    `json:"missing,omitempty"`
}

// Measured is the line of a prompt whose samples got these totals.
func (f PassRates) Measured(p Prompt, totals []float64) PassRate {
	r := PassRate{Prompt: p.Text}
	for _, v := range totals {
		switch {
		case math.IsNaN(v):
			r.Missing++
			continue
		case v >= f.Success:
			r.Passed++
		}
		r.Of++
	}
	return r
}

// Keeps are the numbers of the prompts that stay. A prompt without any score leaves.
func (f PassRates) Keeps(list []Prompt, rates []PassRate) ([]int, error) {
	known := map[string]PassRate{}
	for _, r := range rates {
		if r.Of < 0 || r.Passed < 0 || r.Passed > r.Of {
			return nil, fmt.Errorf("%d of %d samples of %q have passed: that cannot be", r.Passed, r.Of, r.Prompt)
		}
		known[r.Prompt] = r
	}
	var kept []int
	for i, p := range list {
		r, ok := known[p.Text]
		if !ok {
			return nil, fmt.Errorf("there is no pass rate of %q\nhint: the file is of other prompts; without path they are measured", p.Text)
		}
		if share := float64(r.Passed) / float64(r.Of); share > f.Above && share <= f.AtMost {
			kept = append(kept, i)
		}
	}
	return kept, nil
}

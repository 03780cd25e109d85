package experiment

import "math"

// Options of NoisyRollout: part of a group sees distorted pictures. The formulas stand where pictures are
// distorted.

// Noisy is [episode.noisy].
type Noisy struct {
	Share    float64 `toml:"share" range:"(0,1)" doc:"of a group: these see distorted pictures, and learn from the clean ones"`
	Strength int     `toml:"strength" range:"[1,999]" doc:"step of the noise, of 1000, where it is not annealed yet"`
	Schedule string  `toml:"schedule" enum:"none,linear,pow,exp,sigmoid" doc:"how the noise is annealed over the run's iterations"`
	Coef     float64 `toml:"coef" range:"(0,1e6)" doc:"of pow, exp and sigmoid"`
	Middle   float64 `toml:"middle" range:"[0,1e9]" doc:"of sigmoid: the iteration that has half the strength"`
	Old      string  `toml:"old" enum:"clean,rolled" doc:"what ratios compare with: log-probabilities of the same tokens on the clean picture, as published, or those that they were drawn with"`
}

// SetDefaults is what the code's scripts have.
func (n *Noisy) SetDefaults() {
	*n = Noisy{Share: 0.5, Strength: 500, Schedule: "sigmoid", Coef: 30, Middle: 40, Old: "clean"}
}

// Of is how many of a group see distorted pictures: its last ones.
func (n Noisy) Of(group int) int { return int(math.Round(n.Share * float64(group))) }

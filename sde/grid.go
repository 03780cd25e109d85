package sde

import "slices"

// A Grid is a way to place the times of a schedule. Its value is below its formula; Grids lists all of them.
type Grid struct {
	Name string
	Card string // a sentence: its kind and its source

	VP    bool // variance-preserving; the others are for flows
	Whole bool // timesteps are whole numbers
	Calls int  // how often every inner time is listed, for solvers of as many calls; 0: once

	Options any                         // a struct of the option structs that it reads beside the shift; nil: none
	Moved   func(o GridOptions) float64 // how far times are moved towards noise; nil: o.Shift
	Build   func(o GridOptions, steps int) (Schedule, error)
}

// GridOptions are the options of all grids, as one table of a file has them.
type GridOptions struct {
	Shift float64 `toml:"shift" range:"(0,inf)" doc:"towards noise; 1 leaves the times even"`
	DynamicOptions
	LadderOptions
}

// DefaultGridOptions are SD3's shift, and Stable Diffusion's betas.
func DefaultGridOptions() GridOptions {
	return GridOptions{Shift: 3, LadderOptions: LadderOptions{Betas: "scaled_linear", Spacing: "leading"}}
}

// Grids are all grids.
func Grids() []Grid {
	return []Grid{
		ShiftedGrid,
		StaticGrid,
		DynamicGrid,
		KarrasGrid,
		ExponentialGrid,
		BetaGrid,
		HeunGrid,
		UniPCGrid,
		DPMGrid,
		DDPMGrid,
	}
}

// Shifted is how far the grid's times are moved towards noise.
func (g Grid) Shifted(o GridOptions) float64 {
	if g.Moved != nil {
		return g.Moved(o)
	}
	return o.Shift
}

// even is a grid that its shift and its number of steps decide.
func even(place func(shift float64, steps int) Schedule) func(GridOptions, int) (Schedule, error) {
	return func(o GridOptions, steps int) (Schedule, error) { return place(o.Shift, steps), nil }
}

// spaced is diffusers' shifted grid with other spacing.
func spaced(space func(*FlowOptions)) func(GridOptions, int) (Schedule, error) {
	return func(o GridOptions, steps int) (Schedule, error) {
		f := DefaultFlow()
		f.Shift = o.Shift
		space(&f)
		return FlowFP32(f, steps, nil, 0)
	}
}

// GridNamed is the grid of a name.
func GridNamed(name string) (Grid, bool) {
	all := Grids()
	i := slices.IndexFunc(all, func(g Grid) bool { return g.Name == name })
	if i < 0 {
		return Grid{}, false
	}
	return all[i], true
}

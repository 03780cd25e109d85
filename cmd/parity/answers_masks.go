package main

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

func overlong(c *Case) {
	o := advantage.Overlong{Limit: c.Int("max_len"), Buffer: c.Int("buffer"), Factor: c.Float("factor"), Floor: c.Bool("floor")}
	c.Put("penalty", each(c.Ints("lengths"), o.Penalty))
}

func stopProperly(c *Case) {
	r, truncated := c.Floats("rewards"), truths(c, "truncated")
	for i := range r {
		r[i] = advantage.StopProperly(r[i], c.Float("coef"), truncated[i])
	}
	c.Put("rewards", r)
}

func responseMask(c *Case) {
	ends := map[int]bool{}
	for _, id := range c.Ints("eos") {
		ends[id] = true
	}
	var all [][]float64
	for _, row := range mat(c, "ids") {
		all = append(all, answerMask(to[int](row), ends))
	}
	c.Put("mask", c.like("ids", all))
}

func filterGroups(c *Case) {
	ids, scores := c.Ints("group"), c.Floats("scores")
	switch c.String("rule") {
	case "mean":
		c.Put("kept", advantage.Filter{By: "mean", Low: c.Float("low"), High: c.Float("high")}.Kept(ids, scores, nil))
		return
	case "std_pop":
		c.Put("kept", advantage.Filter{By: "rounded"}.Kept(ids, scores, nil))
		return
	}
	var exceeded []bool
	if c.Has("exceeded") {
		exceeded = truths(c, "exceeded")
	}
	// Where a judge failed, the reward is missing: upstream has a list of such groups.
	bad := c.Ints("failed_groups")
	failed := func(group int) bool { return slices.Contains(bad, group) }
	judged := slices.Clone(scores)
	for i, id := range ids {
		if failed(id) {
			judged[i] = math.NaN()
		}
	}
	c.Put("kept", advantage.Filter{By: "deviation", Least: c.Float("min_std")}.Kept(ids, judged, exceeded))
	// The pictures of each answer were drawn while the case was made, and stand among its
	// outputs; more than one means that a tool was used. No format was rewarded.
	var used []bool
	pictures := c.Recorded("image_counts")
	for _, n := range pictures {
		used = append(used, n > 1)
	}
	stats := map[string]any{"solve_format_none": 0, "solve_format_all": 0}
	for name, n := range toolHealth(ids, scores, used, failed, exceeded) {
		stats[name] = n
	}
	stats["solve_format_none"] = stats["totals"]
	c.Put("stats", stats, "image_counts", pictures)
}

// answerMask is 1 up to and including the first end token.
func answerMask(ids []int, ends map[int]bool) []float64 {
	mask := make([]float64, len(ids))
	for i, id := range ids {
		mask[i] = 1
		if ends[id] {
			break
		}
	}
	return mask
}

// silenced is a mask without the rows of answers that are not trained on, whose rewards count
// in their groups all the same (Mini-o3: those that ran out of turns).
func silenced(mask [][]float64, answers []bool) [][]float64 {
	out := make([][]float64, len(mask))
	for i, row := range mask {
		out[i] = make([]float64, len(row))
		if !answers[i] {
			copy(out[i], row)
		}
	}
	return out
}

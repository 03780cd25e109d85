package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// toolHealth counts, over groups of answers that may have used a tool, what using it was
// worth (Mini-o3's statistics). "num_d_t" counts groups by what direct answers and answers
// with a tool came to: 0 all wrong, 1 all right, 2 both, k none of the kind. The rest counts
// groups by which kinds were ever right, and whether anything was wrong; groups whose judge
// failed leave the counts of what is solved. An answer that was not judged (NaN) is neither
// right nor wrong, and is not counted.
func toolHealth(ids []int, correct []float64, used []bool, failed func(group int) bool, exceeded []bool) map[string]int {
	m := map[string]int{}
	for _, name := range []string{"solve_none", "solve_all", "solve_acc_none", "solve_acc_all", "totals", "success_tool_call_per_batch", "success_tool_call_per_sample",
		"use_tool_and_direct_answer_num", "wrong_and_use_tool_num", "wrong_and_direct_answer_num", "wrong_and_use_tool_and_direct_answer_num",
		"only_use_tool_num", "only_direct_answer_num", "only_wrong_num"} {
		m[name] = 0
	}
	for _, d := range "012k" {
		for _, t := range "012k" {
			if d != 'k' || t != 'k' {
				m[fmt.Sprintf("num_%c_%c", d, t)] = 0
			}
		}
	}
	for _, g := range advantage.Groups(ids) {
		g = slices.DeleteFunc(g, func(i int) bool { return math.IsNaN(correct[i]) })
		if len(g) == 0 {
			continue
		}
		var right, wrong [2]int // without and with the tool
		for _, i := range g {
			kind := 0
			if used[i] {
				kind = 1
				m["success_tool_call_per_batch"]++
			}
			if correct[i] > 0 {
				right[kind]++
			} else {
				wrong[kind]++
			}
		}
		if right[1]+wrong[1] > 0 {
			m["success_tool_call_per_sample"]++
		}
		m["num_"+shareRight(right[0], wrong[0])+"_"+shareRight(right[1], wrong[1])]++
		m[whoWasRight(right[1] > 0, right[0] > 0, wrong[0]+wrong[1] > 0)]++
		if failed(ids[g[0]]) {
			continue
		}
		m["totals"]++
		all, none, accAll, accNone := true, true, true, true
		for _, i := range g {
			one, zero := math.Abs(correct[i]-1) <= 1e-8+1e-5, correct[i] == 0
			accAll, accNone = accAll && one, accNone && zero
			if exceeded == nil || !exceeded[i] {
				all, none = all && one, none && zero
			}
		}
		count := func(none, all bool, name string) {
			switch {
			case none:
				m[name+"_none"]++
			case all:
				m[name+"_all"]++
			}
		}
		count(none, all, "solve")
		count(accNone, accAll, "solve_acc")
	}
	return m
}

// shareRight names what answers of one kind came to: all right, all wrong, both, none there.
func shareRight(right, wrong int) string {
	switch {
	case right == 0 && wrong == 0:
		return "k"
	case right == 0:
		return "0"
	case wrong == 0:
		return "1"
	}
	return "2"
}

// whoWasRight names the kinds of answers that a group has.
func whoWasRight(tool, direct, wrong bool) string {
	switch {
	case tool && direct && wrong:
		return "wrong_and_use_tool_and_direct_answer_num"
	case tool && direct:
		return "use_tool_and_direct_answer_num"
	case tool && wrong:
		return "wrong_and_use_tool_num"
	case tool:
		return "only_use_tool_num"
	case direct && wrong:
		return "wrong_and_direct_answer_num"
	case direct:
		return "only_direct_answer_num"
	}
	return "only_wrong_num"
}

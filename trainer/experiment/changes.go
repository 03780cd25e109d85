package experiment

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
)

// free are the keys that a run may go on with other values of.
var free = []string{"run.iterations", "run.device", "run.rank_limit", "run.memory", "run.states", "model.home", "episode.parallel", "evaluate.", "checkpoint.", "monitor[", "track."}

// isFree reports whether a run may go on with another value of a key.
func isFree(key string) bool {
	return slices.ContainsFunc(free, func(p string) bool { return strings.HasPrefix(key, p) }) || strings.HasPrefix(key, "reward[") && strings.HasSuffix(key, ".at_once")
}

// Changes lists the differences of two experiments that change a run, a line a key.
func Changes(before, after *Experiment) []string {
	scheduled := after.Optim.Schedule != "constant" && after.Optim.Steps == 0 || after.prunesFor() || after.anneals() // rates, pruning, or noise depend on the number of iterations
	ranks := !after.Run.Parted() && after.Run.Tokens == nil && len(before.Run.Devices()) != len(after.Run.Devices())  // gradients are added up in another order
	last := ""                                                                                                        // stage, which is as long as the run
	if n := len(after.Stages); n > 0 && len(before.Stages) == n {
		last = fmt.Sprintf("stage[%d].iterations", n-1)
	}
	list := differ(before, after, func(key string) bool {
		if key == "sampler.schedule.tokens" && before.Sampler.Schedule.Kind != "dynamic" && after.Sampler.Schedule.Kind != "dynamic" {
			return false // which nothing reads, and whose default was another
		}
		return (key == "run.iterations" || key == last) && scheduled || key == "run.device" && ranks || key != last && !isFree(key)
	})
	for i, line := range list {
		if strings.HasPrefix(line, "run.device was ") {
			list[i] += ": how gradients are added up depends on how many there are, and one device may be named twice; run.shards, in a new run, makes it all one"
		}
		if strings.HasPrefix(line, "episode.sampling.arithmetic was ") {
			list[i] += ": an earlier version began the run; its folder alone goes on with it, or --set episode.sampling.arithmetic=float64"
		}
	}
	return list
}

// Differences says how two experiments differ at all, a line a key.
func Differences(before, after *Experiment) []string {
	return differ(before, after, func(string) bool { return true })
}

// Settings are all keys with their values as the resolved file writes them, sorted.
func (e *Experiment) Settings() [][2]string {
	var all [][2]string
	for key, value := range e.flat() {
		all = append(all, [2]string{key, value})
	}
	slices.SortFunc(all, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return all
}

// Identity is a sum of the settings that a run cannot go on with other values of: it tells runs apart.
func (e *Experiment) Identity() string {
	h := sha256.New()
	for _, kv := range e.Settings() {
		if !slices.ContainsFunc(free, func(p string) bool { return strings.HasPrefix(kv[0], p) }) {
			fmt.Fprintf(h, "%s = %s\n", kv[0], kv[1])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// differ compares the keys that count.
func differ(before, after *Experiment, counts func(key string) bool) []string {
	old, now := before.flat(), after.flat()
	var keys []string
	for k := range old {
		keys = append(keys, k)
	}
	for k := range now {
		if _, ok := old[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	said := func(v string) string {
		if v == "" {
			return "not there"
		}
		return v
	}
	var out []string
	for i := 0; i < len(keys); i++ {
		k := keys[i]
		if old[k] == now[k] || !counts(k) {
			continue
		}
		if name, n := alone(keys[i:], old, now); n > 3 {
			how := "had %d settings, and is not there"
			if old[k] == "" {
				how = "was not there, and has %d settings"
			}
			out = append(out, fmt.Sprintf("[%s] "+how, name, n))
			i += n - 1
		} else {
			out = append(out, fmt.Sprintf("%s was %s, and is %s", k, said(old[k]), said(now[k])))
		}
	}
	return out
}

// alone is the outermost table of the first of sorted keys that one side does not have, and how many keys are its.
func alone(keys []string, old, now map[string]string) (table string, n int) {
	has, other := old, now
	if old[keys[0]] == "" {
		has, other = now, old
	}
	for at, c := range keys[0] {
		if c != '.' {
			continue
		}
		table = keys[0][:at]
		within := func(k string) bool { return strings.HasPrefix(k, table+".") }
		if slices.ContainsFunc(slices.Collect(maps.Keys(other)), within) {
			continue
		}
		for n < len(keys) && within(keys[n]) && has[keys[n]] != "" {
			n++
		}
		return table, n
	}
	return "", 0
}

// prunesFor reports whether a tree is pruned for a share of the iterations.
func (e *Experiment) prunesFor() bool {
	t := e.Sampler.Tree
	return t != nil && t.Prune.Until < 1
}

// anneals reports whether noise falls over the run's iterations.
func (e *Experiment) anneals() bool {
	return e.Episode != nil && e.Episode.Noisy != nil && e.Episode.Noisy.Schedule != "none"
}

// flat is every key of the resolved file with its value as it is written; tables of a list are
// counted.
func (e *Experiment) flat() map[string]string {
	var text bytes.Buffer
	if err := config.Write(&text, e, func(string) string { return "" }); err != nil {
		return nil
	}
	if err := config.WriteTables(&text, e.doc, "stage"); err != nil {
		return nil
	}
	all, prefix, seen := map[string]string{}, "", map[string]int{}
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "[["):
			name := strings.Trim(line, "[]")
			prefix = fmt.Sprintf("%s[%d].", name, seen[name])
			seen[name]++
		case strings.HasPrefix(line, "["):
			prefix = strings.Trim(line, "[]") + "."
		default:
			if key, value, ok := strings.Cut(line, " = "); ok {
				all[prefix+key] = value
			}
		}
	}
	return all
}

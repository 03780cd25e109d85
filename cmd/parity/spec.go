package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
)

// What is wrong with a list of rewards.
var (
	errJSON   = errors.New("not JSON")
	errName   = errors.New("a weight without a name")
	errWeight = errors.New("not a weight")
)

// parseSpec reads which rewards are wanted, and how much they weigh, in the form that
// Pref-GRPO takes on its command line: "hpsv2:1,clip:0.5", where a name alone weighs 1, or a
// JSON object {"hpsv2": 1}. Of a name given twice the last weight counts, at the first place.
func parseSpec(spec string) ([]rewards.Part, error) {
	spec = strings.TrimSpace(spec)
	if strings.HasPrefix(spec, "{") {
		return parseObject(spec)
	}
	var parts []rewards.Part
	for _, entry := range strings.Split(spec, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		name, text, weighed := strings.Cut(entry, ":")
		weight := 1.0
		if weighed {
			var err error
			if weight, err = parseWeight(text); err != nil {
				return nil, fmt.Errorf("reward %q: %w", name, err)
			}
		}
		if name = strings.TrimSpace(name); name == "" {
			return nil, fmt.Errorf("%q: %w: write name:weight", entry, errName)
		}
		parts = setWeight(parts, name, weight)
	}
	return parts, nil
}

func setWeight(parts []rewards.Part, name string, weight float64) []rewards.Part {
	if i := slices.IndexFunc(parts, func(p rewards.Part) bool { return p.Name == name }); i >= 0 {
		parts[i].Weight = weight
		return parts
	}
	return append(parts, rewards.Part{Name: name, Weight: weight})
}

func parseWeight(text string) (float64, error) {
	text = strings.TrimSpace(text)
	w, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(w) || math.IsInf(w, 0) {
		return 0, fmt.Errorf("%w: %q is not a finite number", errWeight, text)
	}
	return w, nil
}

// parseObject reads {"name": weight}, keeping the order of names.
func parseObject(spec string) ([]rewards.Part, error) {
	if !json.Valid([]byte(spec)) {
		return nil, fmt.Errorf("%w: %s", errJSON, spec)
	}
	d := json.NewDecoder(bytes.NewReader([]byte(spec)))
	d.UseNumber()
	_, _ = d.Token() // "{": it is valid
	var parts []rewards.Part
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errJSON, err)
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("%w: %w", errJSON, err)
		}
		weight, err := parseWeight(fmt.Sprint(value))
		if err != nil {
			return nil, fmt.Errorf("reward %q: %w", name, err)
		}
		parts = setWeight(parts, fmt.Sprint(name), weight)
	}
	return parts, nil
}

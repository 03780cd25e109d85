package main

import (
	"errors"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
)

func TestParseSpec(t *testing.T) {
	for spec, want := range map[string][]rewards.Part{
		"":                          nil,
		" ocr ":                     {{Name: "ocr", Weight: 1}},
		"ocr:2, layout :-0.5,,":     {{Name: "ocr", Weight: 2}, {Name: "layout", Weight: -0.5}},
		"a:1,b,a:3":                 {{Name: "a", Weight: 3}, {Name: "b", Weight: 1}},
		`{"z": 1e-1, "a": 2}`:       {{Name: "z", Weight: 0.1}, {Name: "a", Weight: 2}},
		`{"a": "1.5", "b": 1}`:      {{Name: "a", Weight: 1.5}, {Name: "b", Weight: 1}},
		`{"a": 1, "b": 1, "a": 12}`: {{Name: "a", Weight: 12}, {Name: "b", Weight: 1}},
		"{}":                        nil,
	} {
		if got, err := parseSpec(spec); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v, %v", spec, got, want, err)
		}
	}
	for spec, want := range map[string]error{
		":1": errName, "a, :2": errName,
		"a:": errWeight, "a:b": errWeight, "a:nan": errWeight, "a:1e999": errWeight, "a:1:2": errWeight, `{"a": null}`: errWeight, `{"a": [1]}`: errWeight,
		"{": errJSON, `{"a": 1} x`: errJSON, "{a: 1}": errJSON,
	} {
		if got, err := parseSpec(spec); !errors.Is(err, want) {
			t.Errorf("%q: %v, %v, want %v", spec, got, err, want)
		}
	}
}

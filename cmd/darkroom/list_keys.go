package main

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/config"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// configKeys are the keys of an experiment's file: what each takes, its default, and its sentence.
func configKeys() []name {
	var all []name
	e := experiment.Default()
	for _, k := range experiment.Keys(&e) {
		all = append(all, name{Kind: "keys", Name: k.Path, What: keyText(k)})
	}
	return all
}

// keyText describes a key: "a number in (0,inf), default 0.0003; learning rate".
func keyText(k config.Key) string {
	s := k.Kind
	switch {
	case k.Enum != nil:
		s = "one of " + strings.Join(quotedAll(k.Enum), ", ")
	case k.Range != "":
		s += " in " + k.Range
	}
	switch {
	case k.Required:
		s += ", must be written"
	case k.Default != "":
		s += ", default " + k.Default
	case k.Absent:
		s += ", off unless written"
	}
	if k.Doc != "" {
		s += ": " + k.Doc
	}
	if k.Of != "" {
		s += fmt.Sprintf(" [read by %s]", strings.ReplaceAll(k.Of, ",", ", "))
	}
	return s
}

func quotedAll(names []string) []string {
	var all []string
	for _, n := range names {
		all = append(all, fmt.Sprintf("%q", n))
	}
	return all
}

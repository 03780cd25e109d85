package elsewhere

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// YAML of settings: mappings by indent, lists of mappings and of values, plain and quoted texts, numbers. Anchors, tags
// and texts of several lines are refused.

// readYAML is a file's settings.
func readYAML(path, text string) (*file, error) {
	var all []logical
	for n, line := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		if line, _ = uncommented(line, 0); strings.TrimSpace(line) != "" && line != "---" {
			trimmed := strings.TrimLeft(line, " ")
			all = append(all, logical{trimmed, len(line) - len(trimmed), n + 1})
		}
	}
	y := &yaml{path: filepath.Base(path), lines: all}
	v, err := y.block(0)
	if err == nil && len(y.lines) > 0 {
		err = fmt.Errorf("%s:%d: not read: %.40s", y.path, y.lines[0].at, y.lines[0].text)
	}
	if err != nil {
		return nil, err
	}
	t, ok := v.(*table)
	if !ok {
		return nil, fmt.Errorf("%s has no settings", path)
	}
	return &file{program: "Flow-Factory", path: path, settings: flat(t, "")}, nil
}

type yaml struct {
	path  string
	lines []logical // that are left
}

// block is a mapping or a list of this indent.
func (y *yaml) block(indent int) (any, error) {
	if len(y.lines) == 0 {
		return nil, nil
	}
	if strings.HasPrefix(y.lines[0].text, "- ") {
		return y.items(indent)
	}
	t := newTable()
	for len(y.lines) > 0 && y.lines[0].indent == indent && !strings.HasPrefix(y.lines[0].text, "- ") {
		s := y.lines[0]
		name, rest, ok := strings.Cut(s.text, ":")
		if !ok || rest != "" && rest[0] != ' ' {
			return nil, fmt.Errorf("%s:%d: no NAME: VALUE: %.40s", y.path, s.at, s.text)
		}
		name, rest = strings.TrimSpace(name), strings.TrimSpace(rest)
		y.lines = y.lines[1:]
		var v any
		var err error
		switch {
		case rest != "":
			v, err = scalar(rest)
		case len(y.lines) > 0 && (y.lines[0].indent > indent || y.lines[0].indent == indent && strings.HasPrefix(y.lines[0].text, "- ")):
			v, err = y.block(y.lines[0].indent)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", y.path, s.at, err)
		}
		t.set(name, v, fmt.Sprintf("%s:%d", y.path, s.at))
	}
	return t, nil
}

func (y *yaml) items(indent int) (all []any, err error) {
	for len(y.lines) > 0 && y.lines[0].indent == indent && strings.HasPrefix(y.lines[0].text, "- ") {
		s := &y.lines[0]
		text := strings.TrimLeft(s.text[2:], " ")
		if name, _, ok := strings.Cut(text, ":"); !ok || strings.ContainsAny(name, `"'`) {
			v, err := scalar(text)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", y.path, s.at, err)
			}
			all, y.lines = append(all, v), y.lines[1:]
			continue
		}
		s.indent += len(s.text) - len(text)
		s.text = text
		v, err := y.block(s.indent)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// scalar is a value on a line.
func scalar(text string) (any, error) {
	switch {
	case text == "null" || text == "~":
		return nil, nil
	case text == "true" || text == "false":
		return text == "true", nil
	case strings.HasPrefix(text, "["):
		if !strings.HasSuffix(text, "]") {
			return nil, errors.New("] is missing")
		}
		var all []any
		for part := range strings.SplitSeq(text[1:len(text)-1], ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			v, err := scalar(part)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	case len(text) > 1 && (text[0] == '"' || text[0] == '\'') && text[len(text)-1] == text[0]:
		return text[1 : len(text)-1], nil
	case strings.IndexByte("&*!|>{", text[0]) >= 0:
		return nil, fmt.Errorf("not read: %.40s", text)
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil {
		return x, nil
	}
	return text, nil
}

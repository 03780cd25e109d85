package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// A module is one whose code is in a program: its licence asks for its notice beside a binary.
type module struct {
	path, version, sum string
	licence            string // its SPDX identifier
	notices            []file // from its folder
}

// modules are those of a program, and Go's own library, each with its licences.
func modules(info *debug.BuildInfo) ([]module, error) {
	folder := map[string]string{}
	for _, d := range info.Deps {
		if d.Replace != nil {
			return nil, fmt.Errorf("module %s is replaced by %s, whose licence is not looked for", d.Path, d.Replace.Path)
		}
		folder[d.Path] = ""
	}
	said, err := exec.Command("go", "list", "-m", "-f", "{{.Path}}\t{{.Dir}}", "all").Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	for line := range strings.Lines(string(said)) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if _, ours := folder[name]; ours {
			folder[name] = dir
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	folder["std"] = strings.TrimSpace(string(root))
	all := []module{}
	for _, d := range append(slices.Clone(info.Deps), &debug.Module{Path: "std", Version: info.GoVersion}) {
		m := module{path: d.Path, version: d.Version, sum: d.Sum}
		if err := m.read(folder[d.Path]); err != nil {
			return nil, fmt.Errorf("the licence of %s: %w", m.path, err)
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// read finds the licences and notices of a module in its folder.
func (m *module) read(dir string) error {
	if dir == "" {
		return errors.New("its folder is not known\nhint: go mod download")
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		upper := strings.ToUpper(e.Name())
		ours := slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "PATENTS"}, func(p string) bool { return strings.HasPrefix(upper, p) })
		if e.IsDir() || !ours || path.Ext(e.Name()) == ".go" {
			continue
		}
		from := filepath.Join(dir, e.Name())
		m.notices = append(m.notices, file{path.Join("licenses", m.path, e.Name()), from, 0o644})
		if text, err := os.ReadFile(from); err != nil {
			return err
		} else if m.licence == "" {
			m.licence = identified(string(text))
		}
	}
	if m.licence == "" {
		return fmt.Errorf("%s has none that is known: %s", dir, "Apache-2.0, BSD-2-Clause, BSD-3-Clause, MIT, MPL-2.0")
	}
	return nil
}

// identified is the SPDX identifier of a licence by the words that it alone has; "" for any other.
func identified(text string) string {
	words := strings.Join(strings.Fields(text), " ")
	for _, c := range []struct{ id, has string }{
		{"Apache-2.0", "Apache License Version 2.0"},
		{"MPL-2.0", "Mozilla Public License Version 2.0"},
		{"BSD-3-Clause", "Neither the name"},
		{"BSD-3-Clause", "may not be used to endorse or promote"},
		{"BSD-2-Clause", "Redistribution and use in source and binary forms"},
		{"MIT", "Permission is hereby granted, free of charge"},
	} {
		if strings.Contains(words, c.has) {
			return c.id
		}
	}
	return ""
}

// bill is the software bill of materials of a program, in CycloneDX 1.6.
func bill(version string, all []module) ([]byte, error) {
	type licence struct {
		License map[string]string `json:"license"`
	}
	type component struct {
		Type       string              `json:"type"`
		Name       string              `json:"name"`
		Version    string              `json:"version"`
		PURL       string              `json:"purl"`
		Licenses   []licence           `json:"licenses"`
		Properties []map[string]string `json:"properties,omitempty"`
	}
	of := func(kind, name, version, id, sum string) component {
		c := component{Type: kind, Name: name, Version: version, PURL: "pkg:golang/" + name + "@" + version, Licenses: []licence{{map[string]string{"id": id}}}}
		if sum != "" {
			c.Properties = []map[string]string{{"name": "go:sum", "value": sum}}
		}
		return c
	}
	components := []component{}
	for _, m := range all {
		components = append(components, of("library", m.path, m.version, m.licence, m.sum))
	}
	return json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":   map[string]any{"component": of("application", "github.com/darkroom-rl/darkroom", version, "Apache-2.0", "")},
		"components": components,
	}, "", "  ")
}

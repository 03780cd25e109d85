package prompts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A folder in the layout of the hub's data sets has Parquet files, in data/ or beside its README, whose names begin
// with their split: data/train-00000-of-00002.parquet. Prompts are those of split train, or of the only one;
// FOLDER@SPLIT names another, FOLDER#COLUMN the column with the prompts, FOLDER@SPLIT#COLUMN both.

// A source is a name of prompts, taken apart.
type source struct {
	path, split, column string
}

// sourceOf takes a name apart, unless a file is called so.
func sourceOf(name string) source {
	if _, err := os.Stat(name); err == nil {
		return source{path: name}
	}
	s := source{path: name}
	if i := strings.LastIndexByte(s.path, '#'); i > 0 {
		s.path, s.column = s.path[:i], s.path[i+1:]
	}
	if i := strings.LastIndexByte(s.path, '@'); i > 0 && !strings.ContainsAny(s.path[i:], `/\`) {
		if info, err := os.Stat(s.path[:i]); err == nil && info.IsDir() {
			s.path, s.split = s.path[:i], s.path[i+1:]
		}
	}
	return s
}

// dataset reads a folder. Names of pictures begin in the folder around it.
func (s source) dataset() ([]Prompt, error) {
	files, err := s.files()
	if err != nil {
		return nil, err
	}
	var list []Prompt
	for _, file := range files {
		shown := filepath.ToSlash(filepath.Join(filepath.Base(s.path), file))
		some, err := parquetPrompts(filepath.Join(s.path, filepath.FromSlash(file)), shown, s.column)
		if err != nil {
			return nil, fmt.Errorf("%s:%w", filepath.Join(s.path, filepath.FromSlash(file)), err)
		}
		list = append(list, some...)
	}
	return list, nil
}

// configurations are folders beside data/: a data set of one configuration may have its files there.
func (s source) configurations() (dirs []string) {
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return nil // said where the folder itself is read
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "data" && !strings.HasPrefix(e.Name(), ".") {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs
}

// files are those of the split, from the folder, in their order.
func (s source) files() ([]string, error) {
	splits := map[string][]string{}
	for _, dir := range append([]string{"data", "."}, s.configurations()...) {
		entries, err := os.ReadDir(filepath.Join(s.path, dir))
		if err != nil && dir == "." {
			return nil, err
		}
		for _, e := range entries {
			if strings.EqualFold(filepath.Ext(e.Name()), ".parquet") {
				split, _, _ := strings.Cut(strings.TrimSuffix(e.Name(), filepath.Ext(e.Name())), "-")
				splits[split] = append(splits[split], filepath.ToSlash(filepath.Join(dir, e.Name())))
			}
		}
		if len(splits) > 0 {
			break
		}
	}
	var names []string
	for name := range splits {
		names = append(names, name)
	}
	slices.Sort(names)
	wanted := s.split
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("%s: prompts are .txt, .jsonl, .csv or .parquet files, or folders of data sets with data/*.parquet, which this is not", s.path)
	case wanted == "" && len(names) == 1:
		wanted = names[0]
	case wanted == "":
		wanted = "train"
	}
	if len(splits[wanted]) == 0 {
		return nil, fmt.Errorf("%s has no split %q\nhint: there are %s; FOLDER@SPLIT names one", s.path, wanted, strings.Join(names, ", "))
	}
	return splits[wanted], nil
}

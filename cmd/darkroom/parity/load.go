package parity

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// The two forms of recorded cases. A family is a file
//
//	{"family": "sde_flow", "cases": [{"name", "op", "in": {...}, "out": {...}, "tol": {"abs", "rel"}, "tols": {...}}]}
//
// and a folder case is case.json with the same fields beside tensors.safetensors;
// its "in", "out" and "grad" may be lists of names of tensors. Other JSON files
// are of no concern here: a folder case holds a model's configuration too.

// A recorded case is what an op sees and what it should have computed.
type recorded struct {
	file string
	seen *Case
	want map[string]any
	tols tolerances
}

// A loader finds cases and hands them on, one at a time: what is wrong with one
// of them must not keep the others from running.
type loader struct {
	each func(recorded)
	bad  func(error)
}

// load reads a file, or every file below a folder.
func (l loader) load(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return l.folder(path)
	}
	if filepath.Base(path) == "case.json" {
		l.caseFolder(filepath.Dir(path))
	} else {
		l.family(path)
	}
	return nil
}

func (l loader) folder(path string) error {
	if _, err := os.Stat(filepath.Join(path, "case.json")); err == nil {
		l.caseFolder(path)
		return nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		inner := filepath.Join(path, e.Name())
		switch {
		case e.IsDir():
			if err := l.folder(inner); err != nil {
				return err
			}
		case filepath.Ext(inner) == ".json":
			l.family(inner)
		}
	}
	return nil
}

func (l loader) family(file string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		l.bad(err)
		return
	}
	var family map[string]json.RawMessage
	err = json.Unmarshal(raw, &family)
	var other *json.UnmarshalTypeError
	if errors.As(err, &other) || err == nil && family["cases"] == nil {
		return // JSON, but not ours
	}
	var cases []json.RawMessage
	if err == nil {
		err = json.Unmarshal(family["cases"], &cases)
	}
	if errors.As(err, &other) && family["family"] == nil {
		return // a vocabulary may hold the word "cases"
	}
	if err != nil {
		l.bad(fmt.Errorf("%s: %w", file, err))
		return
	}
	for i, raw := range cases {
		c, err := parse(raw, filepath.Dir(file), noTensor)
		l.hand(file, i, c, err)
	}
}

// hand passes a case on, or says what is wrong with it.
func (l loader) hand(file string, i int, c recorded, err error) {
	if err == nil {
		c.file = file
		l.each(c)
		return
	}
	name := fmt.Sprintf("case %d", i)
	if c.seen != nil && c.seen.Name != "" {
		name = fmt.Sprintf("case %q", c.seen.Name)
	}
	l.bad(fmt.Errorf("%s: %s: %w", file, name, err))
}

func (l loader) caseFolder(dir string) {
	file := filepath.Join(dir, "case.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		l.bad(err)
		return
	}
	tensor := noTensor
	stored := filepath.Join(dir, "tensors.safetensors")
	if _, err := os.Stat(stored); err == nil {
		f, err := safetensors.Open(stored)
		if err != nil {
			l.bad(err)
			return
		}
		defer f.Close()
		tensor = tensors{f}.array
	}
	c, err := parse(raw, dir, tensor)
	l.hand(file, 0, c, err)
}

// A tensorSource finds a tensor by its name.
type tensorSource func(name string) (Array, bool, error)

func noTensor(string) (Array, bool, error) { return Array{}, false, nil }

type tensors struct{ file *safetensors.File }

func (t tensors) array(name string) (Array, bool, error) {
	if _, ok := t.file.Info(name); !ok {
		return Array{}, false, nil
	}
	stored, err := t.file.Tensor(name)
	if err != nil {
		return Array{}, false, err
	}
	a := Array{Shape: slices.Clone(stored.Shape)}
	if whole, err := stored.Int64(nil); err == nil {
		a.Data = widened(whole)
		return a, true, nil
	}
	values, err := stored.Float32(nil)
	a.Data = widened(values)
	return a, err == nil, err
}

func widened[T int64 | float32](values []T) []float64 {
	data := make([]float64, len(values))
	for i, v := range values {
		data[i] = float64(v)
	}
	return data
}

// parse reads one case of either form. Where it fails, the case's name is kept
// if it was found.
func parse(raw []byte, dir string, tensor tensorSource) (recorded, error) {
	var c recorded
	v, err := decode(raw)
	if err != nil {
		var named struct{ Name string }
		if json.Unmarshal(raw, &named) == nil {
			c.seen = newCase(named.Name, "", dir, nil)
		}
		return c, err
	}
	doc, ok := v.(map[string]any)
	if !ok {
		return c, errors.New("is not an object")
	}
	name, _ := doc["name"].(string)
	op, _ := doc["op"].(string)
	c.seen = newCase(name, op, dir, inputs(doc))
	c.seen.tensor = tensor
	if name == "" || op == "" {
		return c, errors.New(`needs "name" and "op", both texts`)
	}
	if c.tols, err = readTolerances(doc); err != nil {
		return c, err
	}
	c.want, err = outputs(doc, tensor)
	if err == nil && len(c.want) == 0 {
		err = errors.New(`records no output: "out" is empty or missing`)
	}
	return c, err
}

// inputs are the objects "in" and "args" of a case, the columns of its table,
// and for the rest the fields of the case itself.
func inputs(doc map[string]any) map[string]any {
	in := map[string]any{}
	for k, v := range doc {
		if !slices.Contains([]string{"in", "out", "args", "name", "op", "tol", "tols", "note", "source"}, k) {
			in[k] = v
		}
	}
	for k, column := range columns(doc) {
		in[k] = column
	}
	for _, part := range []string{"args", "in"} {
		m, _ := doc[part].(map[string]any)
		for k, v := range m {
			in[k] = v
		}
	}
	return in
}

// columns turns a case's table, a list of objects, into a list a field.
func columns(doc map[string]any) map[string]any {
	table, _ := doc["table"].([]any)
	all := map[string]any{}
	for i, row := range table {
		fields, _ := row.(map[string]any)
		for k, v := range fields {
			column, ok := all[k].([]any)
			if !ok {
				column = make([]any, len(table))
			}
			column[i] = v
			all[k] = column
		}
	}
	return all
}

// outputs are the object "out", or what the lists "out" and "grad" name: a
// tensor, a column of the table, or a field of the case.
func outputs(doc map[string]any, tensor tensorSource) (map[string]any, error) {
	if m, ok := doc["out"].(map[string]any); ok {
		return m, nil
	}
	table := columns(doc)
	want := map[string]any{}
	for _, list := range []string{"out", "grad"} {
		names, _ := doc[list].([]any)
		for _, n := range names {
			name, ok := n.(string)
			if !ok {
				return nil, fmt.Errorf("%q holds what is not a name", list)
			}
			a, found, err := tensor(name)
			if err != nil {
				return nil, err
			}
			value := any(a)
			if !found {
				value, found = table[name]
			}
			if !found {
				value, found = doc[name]
			}
			if !found {
				return nil, fmt.Errorf("output %q is not recorded", name)
			}
			want[name] = value
		}
	}
	return want, nil
}

// readTolerances reads "tol", for all names or name by name, and "tols", name by
// name. Other fields of "tol" are an op's own business.
func readTolerances(doc map[string]any) (tolerances, error) {
	t := tolerances{byName: map[string]tolerance{}}
	var err error
	if t.all, err = readTolerance("tol", doc["tol"]); err != nil {
		return t, err
	}
	for _, part := range []string{"tol", "tols"} {
		names, _ := doc[part].(map[string]any)
		for name, v := range names {
			if _, ok := v.(map[string]any); !ok && part == "tol" {
				continue
			}
			if t.byName[name], err = readTolerance(part+"."+name, v); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

func readTolerance(name string, v any) (t tolerance, err error) {
	read := func(v any) float64 {
		x, ok := float(v)
		if v != nil && (!ok || !(x >= 0)) {
			err = fmt.Errorf("%s: a tolerance is {\"abs\": x, \"rel\": y} with numbers that are not negative", name)
		}
		return x
	}
	if m, ok := v.(map[string]any); ok {
		return tolerance{read(m["abs"]), read(m["rel"])}, err
	}
	return tolerance{Abs: read(v)}, err
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A recorded case is what an op sees and what it should have computed.
type recorded struct {
	file string
	seen *Case
	args map[string]any // what the op is expected to read
	want map[string]any
	tols tolerances
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
	c.seen.tensor, c.seen.raw = tensor, raw
	c.args = arguments(doc)
	if name == "" || op == "" {
		return c, errors.New(`needs "name" and "op", both texts`)
	}
	if c.tols, err = readTolerances(doc); err != nil {
		return c, err
	}
	c.want, err = outputs(doc, tensor)
	c.tols.byKind(doc, c.want)
	c.seen.want = c.want
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
		if !slices.Contains([]string{"in", "out", "args", "name", "op", "tols", "note", "source"}, k) {
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

// arguments are the objects "in" and "args" of a case, and the tensors that the list "in" names.
func arguments(doc map[string]any) map[string]any {
	all := map[string]any{}
	for _, part := range []string{"args", "in"} {
		m, _ := doc[part].(map[string]any)
		maps.Copy(all, m)
		list, _ := doc[part].([]any)
		for _, n := range list {
			if name, ok := n.(string); ok {
				all[name] = true
			}
		}
	}
	return all
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
// tensor, a column of the table, or a field of the case. In an object, "tensor" may name one.
// The object "scores" is an output.
func outputs(doc map[string]any, tensor tensorSource) (map[string]any, error) {
	if m, ok := doc["out"].(map[string]any); ok {
		name, ok := m["tensor"].(string)
		if !ok {
			return m, nil
		}
		a, found, err := tensor(name)
		if err == nil && found {
			m["tensor"] = a
		}
		return m, err
	}
	table := columns(doc)
	want := map[string]any{}
	lists := map[string][]any{}
	for _, list := range []string{"out", "grad"} {
		lists[list], _ = doc[list].([]any)
	}
	if scores, ok := doc["scores"].(map[string]any); ok {
		want["scores"], lists["in"] = scores, prepared(doc)
	}
	for _, list := range []string{"out", "grad", "in"} {
		for _, n := range lists[list] {
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
		return tolerance{Abs: read(m["abs"]), Rel: read(m["rel"])}, err
	}
	return tolerance{Abs: read(v)}, err
}

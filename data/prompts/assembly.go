package prompts

import (
	"errors"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// An assembly joins the leaves' values of a row by their levels (Melnik et al., 2010).
type assembly struct {
	meanings []any
	leaves   []*parquet.Column
}

// of is a column's value; values are those of its leaves. A column none of whose leaves was read is nil.
func (a assembly) of(c *parquet.Column, values [][]parquet.Value) (any, error) {
	if len(values) == 0 || len(values[0]) == 0 {
		return nil, nil
	}
	first := values[0][0]
	switch {
	case c.Repeated():
		return a.list(c, c, values)
	case c.Optional() && first.DefinitionLevel() < c.MaxDefinitionLevel():
		return nil, nil
	case c.Leaf():
		return a.cell(c, first)
	}
	if inner := c.Columns(); len(inner) == 1 && inner[0].Repeated() && isList(c) {
		return a.list(inner[0], element(inner[0]), values)
	}
	return a.object(c, values)
}

// object is a group's members; those whose leaves were not read are left out.
func (a assembly) object(c *parquet.Column, values [][]parquet.Value) (any, error) {
	o := pytext.Ordered{Values: pytext.Object{}}
	at := 0
	for _, inner := range c.Columns() {
		var some [][]parquet.Value
		below := assembly{meanings: a.meanings}
		for _, leaf := range leavesOf(inner) {
			if at < len(a.leaves) && slices.Equal(a.leaves[at].Path(), leaf.Path()) {
				some, below.leaves = append(some, values[at]), append(below.leaves, leaf)
				at++
			}
		}
		if len(some) == 0 {
			continue
		}
		v, err := below.of(inner, some)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", inner.Name(), err)
		}
		o.Keys, o.Values[inner.Name()] = append(o.Keys, inner.Name()), v
	}
	return o, nil
}

// list returns the values of a repeated column, each read by of.
func (a assembly) list(repeated, of *parquet.Column, values [][]parquet.Value) (any, error) {
	list := []any{}
	if values[0][0].DefinitionLevel() < repeated.MaxDefinitionLevel() {
		return list, nil
	}
	level := repeated.MaxRepetitionLevel()
	ends := make([]int, len(values)) // the position of each leaf
	for ends[0] < len(values[0]) {
		item := make([][]parquet.Value, len(values))
		for k, v := range values {
			from := ends[k]
			for ends[k]++; ends[k] < len(v) && v[ends[k]].RepetitionLevel() > level; ends[k]++ {
			}
			if from >= len(v) {
				return nil, errors.New("its parts have lists of different lengths")
			}
			item[k] = v[from:ends[k]]
		}
		v, err := a.item(repeated, of, item)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// item returns an element of a list: a value of the repeated column, or of its replacement.
func (a assembly) item(repeated, of *parquet.Column, values [][]parquet.Value) (any, error) {
	switch {
	case of != repeated:
		return a.of(of, values)
	case repeated.Leaf():
		return a.cell(repeated, values[0][0])
	}
	return a.object(repeated, values)
}

// isList reports whether a group is a list of its one repeated member.
func isList(c *parquet.Column) bool {
	if t := c.Type().LogicalType(); t != nil && t.Value != nil {
		name := t.Value.String()
		return name == "LIST"
	}
	name := c.Columns()[0].Name()
	return name == "list" || name == "bag" || name == "array"
}

// element returns the content of a list's repeated member: its one column, or, in files of older writers, the member
// itself.
func element(repeated *parquet.Column) *parquet.Column {
	if inner := repeated.Columns(); len(inner) == 1 && repeated.Name() != "array" {
		return inner[0]
	}
	return repeated
}

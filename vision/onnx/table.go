package onnx

import (
	"fmt"
	"sync"
)

// An operator is an operator of the default domain, all its versions.
type operator struct {
	name        string
	since       int // the opset that it came with
	least, most int // inputs
	run         func(c *call)
	random      bool // it must not run before the model does
}

func (o operator) arity() string {
	switch {
	case o.most >= many:
		return fmt.Sprintf("%d and more", o.least)
	case o.least == o.most:
		return fmt.Sprint(o.least)
	}
	return fmt.Sprintf("%d to %d", o.least, o.most)
}

// many is the number of inputs of operators that take any.
const many = 1 << 20

// families are the operators, a family a file.
func families() [][]operator {
	return [][]operator{
		arithmetic(), comparisons(), functions(), activations(), convolutions(), pools(), norms(), resizes(), samplers(), products(), attentions(),
		shapes(), gathers(), generators(), reductions(), selections(), recurrents(), quantizers(), controls(),
	}
}

// operators are all operators by name.
var operators = sync.OnceValue(func() map[string]operator {
	table := map[string]operator{}
	for _, family := range families() {
		for _, op := range family {
			if _, ok := table[op.name]; ok {
				panic("onnx: two operators " + op.name)
			}
			table[op.name] = op
		}
	}
	return table
})

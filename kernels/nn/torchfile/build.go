package torchfile

import (
	"errors"
	"fmt"
	"strings"
)

// What a pickle makes of what lies on its stack: dicts, storages and tensors, by the few names that are known.

// build is the instructions that make something of what lies on the stack.
func (m *machine) build(op byte) error {
	switch op {
	case 'c': // GLOBAL
		module, err := m.line()
		if err != nil {
			return err
		}
		name, err := m.line()
		if err != nil {
			return err
		}
		g := module + "." + name
		if _, isStorage := strings.CutSuffix(name, "Storage"); g != orderedDict && g != rebuild && g != parameter && !(module == "torch" && isStorage) {
			return fmt.Errorf("the pickle asks for %s, which no state dict needs; nothing of it was called", g)
		}
		m.push(global(g))
		return nil
	case 'Q': // BINPERSID
		v, err := m.pop()
		if err != nil {
			return err
		}
		s, err := storageOf(v)
		m.push(s)
		return err
	case 'R': // REDUCE
		pair, err := m.tail(2)
		if err != nil {
			return err
		}
		v, err := called(pair[0], pair[1])
		m.push(v)
		return err
	case 'b': // BUILD: attributes, of which a state dict has _metadata
		_, err := m.pop()
		return errors.Join(err, m.atLeast(1))
	case 's': // SETITEM
		pair, err := m.tail(2)
		if err != nil {
			return err
		}
		return m.set(pair)
	case 'u': // SETITEMS
		all, err := m.marked()
		if err != nil {
			return err
		}
		return m.set(all)
	}
	return fmt.Errorf("the pickle has the instruction %#02x, which state dicts do not need", op)
}

// set puts pairs into the dict on the stack.
func (m *machine) set(pairs []any) error {
	if err := m.atLeast(1); err != nil {
		return err
	}
	d, ok := m.stack[len(m.stack)-1].(*dict)
	if !ok || len(pairs)%2 != 0 {
		return errors.New("the pickle puts pairs into what is no dict")
	}
	for i := 0; i < len(pairs); i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			return fmt.Errorf("a dict's key is a %T, not a text", pairs[i])
		}
		if _, there := d.values[key]; !there {
			d.keys = append(d.keys, key)
		}
		d.values[key] = pairs[i+1]
	}
	return nil
}

func newDict() *dict { return &dict{values: map[string]any{}} }

// The names that are known.
const (
	orderedDict = "collections.OrderedDict"
	rebuild     = "torch._utils._rebuild_tensor_v2"
	parameter   = "torch._utils._rebuild_parameter"
)

// called is what a known name makes of its arguments.
func called(of, with any) (any, error) {
	g, known := of.(global)
	args, _ := with.([]any)
	switch {
	case g == orderedDict && len(args) == 0:
		return newDict(), nil
	case g == parameter && len(args) > 0:
		if v, ok := args[0].(view); ok {
			return v, nil
		}
	case g == rebuild && len(args) >= 4:
		s, isStorage := args[0].(storage)
		first, isInt := args[1].(int)
		shape, isShape := whole(args[2])
		strides, isStrides := whole(args[3])
		if isStorage && isInt && isShape && isStrides && len(shape) == len(strides) {
			return view{s, first, shape, strides}, nil
		}
	}
	if !known { // a value may be far longer than the text that made it
		return nil, fmt.Errorf("the pickle calls a %T, which is no name", of)
	}
	return nil, fmt.Errorf("the pickle calls %s with what is no tensor", g)
}

// whole is a tuple of whole numbers.
func whole(v any) (all []int, ok bool) {
	list, ok := v.([]any)
	for _, x := range list {
		n, isInt := x.(int)
		all, ok = append(all, n), ok && isInt
	}
	return all, ok
}

// storageOf is a tuple ("storage", kind, key, device, numbers).
func storageOf(v any) (s storage, err error) {
	if t, ok := v.([]any); ok && len(t) == 5 && t[0] == "storage" {
		kind, isKind := t[1].(global)
		key, isKey := t[2].(string)
		n, isInt := t[4].(int)
		if isKind && isKey && isInt && n >= 0 && strings.HasPrefix(string(kind), "torch.") {
			return storage{strings.TrimPrefix(string(kind), "torch."), key, n}, nil
		}
	}
	return s, errors.New("the pickle names something outside that is no storage")
}

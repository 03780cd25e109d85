package torchfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Card: pickle's protocol 2, as far as torch.save writes state dicts by it, and trainers' checkpoints around them. A
// value is a string, an int, a float, a bool, nil, a tuple ([]any), a *list, a *dict, a name of the few that are known
// (global), a storage, or a tensor's place (view). Every instruction reads at least one byte, so the work is bounded
// by the text's length.

// global is a name that the pickle mentions.
type global string

// dict is an ordered dict, of text keys.
type dict struct {
	keys   []string
	values map[string]any
}

// list is a list, without its values: tensors do not need them.
type list struct{}

// storage is a file of numbers.
type storage struct {
	kind string // FloatStorage
	key  string // of its file
	n    int
}

// view is a tensor's place in a storage.
type view struct {
	of             storage
	first          int
	shape, strides []int
}

// mark is MARK's value on the stack.
type mark struct{}

// machine reads a pickle.
type machine struct {
	text  []byte
	stack []any
	memo  map[int]any
}

// parse is the value of a pickle.
func parse(text []byte) (v any, err error) {
	m := &machine{text: text, memo: map[int]any{}}
	for {
		op, err := m.take(1)
		if err != nil {
			return nil, err
		}
		if op[0] == '.' {
			return m.pop()
		}
		if err := m.do(op[0]); err != nil {
			return nil, err
		}
	}
}

var errShort = errors.New("the pickle ends in the middle")

func (m *machine) take(n int) ([]byte, error) {
	if n < 0 || n > len(m.text) {
		return nil, errShort
	}
	b := m.text[:n]
	m.text = m.text[n:]
	return b, nil
}

func (m *machine) line() (string, error) {
	i := slices.Index(m.text, '\n')
	if i < 0 {
		return "", errShort
	}
	b := string(m.text[:i])
	m.text = m.text[i+1:]
	return b, nil
}

// number is a whole number of n bytes, little endian; of 4 it may be negative.
func (m *machine) number(n int) (int, error) {
	b, err := m.take(n)
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	copy(wide[:], b)
	v := int(binary.LittleEndian.Uint64(wide[:]))
	if n == 4 {
		v = int(int32(v))
	}
	return v, nil
}

func (m *machine) push(v any) { m.stack = append(m.stack, v) }

func (m *machine) pop() (any, error) {
	if len(m.stack) == 0 {
		return nil, errors.New("the pickle takes from an empty stack")
	}
	v := m.stack[len(m.stack)-1]
	m.stack = m.stack[:len(m.stack)-1]
	return v, nil
}

// tail takes the last n values.
func (m *machine) tail(n int) ([]any, error) {
	if n > len(m.stack) {
		return nil, errors.New("the pickle takes from an empty stack")
	}
	all := slices.Clone(m.stack[len(m.stack)-n:])
	m.stack = m.stack[:len(m.stack)-n]
	return all, nil
}

// marked takes the values above the last mark, and the mark.
func (m *machine) marked() ([]any, error) {
	for i := len(m.stack) - 1; i >= 0; i-- {
		if _, ok := m.stack[i].(mark); ok {
			all := slices.Clone(m.stack[i+1:])
			m.stack = m.stack[:i]
			return all, nil
		}
	}
	return nil, errors.New("the pickle has no mark where one is needed")
}

// do is one instruction.
func (m *machine) do(op byte) (err error) {
	var n int
	switch op {
	case 0x80: // PROTO
		if n, err = m.number(1); err == nil && n != 2 {
			return fmt.Errorf("a pickle of protocol %d; torch.save writes 2", n)
		}
		return err
	case '}', ']', ')', '(', 'N', 0x88, 0x89: // EMPTY_DICT, EMPTY_LIST, EMPTY_TUPLE, MARK, NONE, NEWTRUE, NEWFALSE
		var v any // NONE
		switch op {
		case '}':
			v = newDict()
		case ']':
			v = &list{}
		case ')':
			v = []any{}
		case '(':
			v = mark{}
		case 0x88, 0x89:
			v = op == 0x88
		}
		m.push(v)
		return nil
	case 'K', 'M', 'J': // BININT1, BININT2, BININT
		if n, err = m.number(map[byte]int{'K': 1, 'M': 2, 'J': 4}[op]); err == nil {
			m.push(n)
		}
		return err
	case 'G': // BINFLOAT, big endian
		b, err := m.take(8)
		if err == nil {
			m.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
		}
		return err
	case 0x8a: // LONG1
		return m.long()
	case 'X', 'U': // BINUNICODE, SHORT_BINSTRING
		if n, err = m.number(map[byte]int{'X': 4, 'U': 1}[op]); err != nil {
			return err
		}
		b, err := m.take(n)
		m.push(string(b))
		return err
	case 'q', 'r': // BINPUT, LONG_BINPUT
		if n, err = m.number(map[byte]int{'q': 1, 'r': 4}[op]); err != nil || len(m.stack) == 0 {
			return errors.Join(err, m.atLeast(1))
		}
		m.memo[n] = m.stack[len(m.stack)-1]
		return nil
	case 'h', 'j': // BINGET, LONG_BINGET
		if n, err = m.number(map[byte]int{'h': 1, 'j': 4}[op]); err != nil {
			return err
		}
		v, ok := m.memo[n]
		if !ok {
			return fmt.Errorf("the pickle remembers nothing as %d", n)
		}
		m.push(v)
		return nil
	case 0x85, 0x86, 0x87: // TUPLE1, TUPLE2, TUPLE3
		all, err := m.tail(int(op) - 0x84)
		m.push(all)
		return err
	case 't': // TUPLE
		all, err := m.marked()
		m.push(all)
		return err
	}
	return m.build(op)
}

func (m *machine) atLeast(n int) error {
	if len(m.stack) < n {
		return errors.New("the pickle takes from an empty stack")
	}
	return nil
}

// long is a whole number of any length, of which eight bytes are possible.
func (m *machine) long() error {
	n, err := m.number(1)
	if err != nil {
		return err
	}
	if n > 8 {
		return fmt.Errorf("a whole number of %d bytes", n)
	}
	b, err := m.take(n)
	if err != nil {
		return err
	}
	v := 0
	for i, x := range b {
		v |= int(x) << (8 * i)
	}
	if n > 0 && n < 8 && b[n-1]&0x80 != 0 {
		v -= 1 << (8 * n)
	}
	m.push(v)
	return nil
}

// A pickle's objects from values on its stack: dicts, storages and tensors, by the few names that are known.

// build is the instructions that build an object of values on the stack.
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
	case 'a': // APPEND
		if _, err := m.pop(); err != nil {
			return err
		}
		return m.onList()
	case 'e': // APPENDS
		if _, err := m.marked(); err != nil {
			return err
		}
		return m.onList()
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

// onList checks that values were appended to a list.
func (m *machine) onList() error {
	if err := m.atLeast(1); err != nil {
		return err
	}
	if _, ok := m.stack[len(m.stack)-1].(*list); !ok {
		return errors.New("the pickle appends to what is no list")
	}
	return nil
}

// set puts pairs into the dict on the stack, except those with other keys than text (of an optimizer's state).
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
			continue
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

// called is a known name's result for its arguments.
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

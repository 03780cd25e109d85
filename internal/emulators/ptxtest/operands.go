package ptxtest

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// instruction adds one.
func (l *linker) instruction(st statement, s *scope) (err error) {
	in := instruction{op: st.op, line: st.line, guard: -1, negate: st.negated}
	if st.guard != "" {
		o, err := l.operand(st.guard, s)
		if err != nil {
			return err
		}
		if o.class != predicate {
			return fmt.Errorf("%s is no predicate", st.guard)
		}
		in.guard = o.i
	}
	name, args := st.op, st.args
	if strings.HasPrefix(name, "bra") {
		l.jumps[len(l.p.code)] = args[0] + "@" + s.function
		name, args = "bra", nil
	}
	if name, args, err = l.parameters(name, args, s); err != nil {
		return err
	}
	if strings.HasPrefix(name, "wgmma.mma_async") && strings.HasPrefix(args[1], "{") {
		name += ".held"
	}
	if len(args) == 2 && name == "bar.sync" {
		name = "bar.sync.n"
	}
	if len(args) == 2 && strings.HasPrefix(name, "mov.") { // a register in two parts
		if strings.HasPrefix(args[0], "{") {
			name += ".apart"
		} else if strings.HasPrefix(args[1], "{") {
			name += ".joined"
		}
	}
	for _, a := range args {
		if err := l.operands(&in, a, s); err != nil {
			return err
		}
	}
	if in.row, err = find(name); err != nil {
		return err
	}
	if err := in.row.check(in.args); err != nil {
		return err
	}
	l.note(name)
	l.p.code = append(l.p.code, in)
	return nil
}

// note keeps the properties of a program that its instructions show.
func (l *linker) note(name string) {
	l.p.units = l.p.units || strings.HasPrefix(name, "wgmma.mma")
	l.p.waits = l.p.waits || name == "griddepcontrol.wait"
	l.p.partly = l.p.partly || name == "bar.sync.n" || name == "bar.arrive" || strings.HasPrefix(name, "mbarrier.")
	first, rest, _ := strings.Cut(name, ".")
	if a, ok := accessOf(rest); ok && (first == "ld" || first == "st") {
		width := uint8(bits.Len(uint(a.n*a.size)) - 1)
		for s := range l.p.cells {
			if a.space == generic || a.space == space(s) {
				l.p.cells[s] = min(l.p.cells[s], width)
			}
		}
	}
}

// parameters makes moves of accesses to the parameters of calls, which are registers.
func (l *linker) parameters(name string, args []string, s *scope) (string, []string, error) {
	load, store := strings.HasPrefix(name, "ld.param."), strings.HasPrefix(name, "st.param.")
	if !load && !store {
		return name, args, nil
	}
	i := 0
	if load {
		i = 1
	}
	inside, offset, _ := strings.Cut(strings.Trim(args[i], "[]"), "+")
	o, err := l.operand(inside, s)
	if err != nil {
		return "", nil, err
	}
	if load && (o.class == constant || strings.HasPrefix(inside, "%")) {
		return name, args, nil // a kernel's
	}
	if offset != "" && offset != "0" {
		return "", nil, fmt.Errorf("a part of a call's parameter")
	}
	args = append([]string{}, args...)
	args[i] = inside
	switch {
	case o.class == double:
		return "mov.b64", args, nil
	case name == "ld.param.s32" && strings.HasPrefix(args[0], "%rd"):
		return "cvt.s64.s32", args, nil
	case name == "ld.param.u32" && strings.HasPrefix(args[0], "%rd"):
		return "cvt.u64.u32", args, nil
	}
	return "mov.b32", args, nil
}

// operands adds the parts of one argument: a vector's registers one after another, a result and the predicate beside
// it (%r1|%p2).
func (l *linker) operands(in *instruction, text string, s *scope) error {
	switch {
	case strings.HasPrefix(text, "{"):
		for _, part := range strings.Split(strings.Trim(text, "{}"), ",") {
			if err := l.operands(in, strings.TrimSpace(part), s); err != nil {
				return err
			}
		}
		return nil
	case strings.HasPrefix(text, "["):
		return l.memory(in, strings.TrimSpace(text[1:len(text)-1]), s)
	case strings.Contains(text, "|"):
		a, b, _ := strings.Cut(text, "|")
		if err := l.operands(in, a, s); err != nil {
			return err
		}
		return l.operands(in, b, s)
	}
	o, err := l.operand(text, s)
	in.args = append(in.args, o)
	return err
}

// memory adds an address, and the coordinates that follow one of a tensor map.
func (l *linker) memory(in *instruction, text string, s *scope) error {
	text, coordinates, _ := strings.Cut(text, ",")
	base, offset, signed := strings.Cut(text, "+")
	o, err := l.operand(base, s)
	if err != nil {
		return err
	}
	a := operand{class: address, base: o.class, i: o.i}
	if signed {
		if a.offset, err = strconv.ParseInt(offset, 0, 64); err != nil {
			return err
		}
	}
	in.args = append(in.args, a)
	if coordinates != "" {
		return l.operands(in, strings.TrimSpace(coordinates), s)
	}
	return nil
}

// operand is a name's place, or a constant's.
func (l *linker) operand(text string, s *scope) (operand, error) {
	if text == "_" {
		return operand{class: sink}, nil
	}
	for in := s; in != nil; in = in.up {
		if o, ok := in.names[text]; ok {
			return o, nil
		}
	}
	if c := text[0]; c == '-' || c >= '0' && c <= '9' {
		return l.number(text)
	}
	stem := strings.TrimRight(text, "0123456789")
	for in := s; in != nil; in = in.up {
		if f, ok := in.families[stem]; ok {
			if n, err := strconv.Atoi(text[len(stem):]); err != nil || n >= f.n {
				break
			}
			o := l.register(f.class)
			in.names[text] = o
			return o, nil
		}
	}
	return operand{}, fmt.Errorf("%s is not declared", text)
}

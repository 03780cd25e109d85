package ptxtest

import (
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
)

// A class is a register's kind. Registers of 16 bits have a place of 32.
type class byte

const (
	none      class = iota
	predicate       // a bit for each lane
	half
	word
	double
	address // [base + offset]
	constant
	sink // _, the target of unread results
)

// classOf is that of a declared type.
func classOf(t string) class {
	switch {
	case t == ".pred":
		return predicate
	case strings.HasSuffix(t, "16"):
		return half
	case strings.HasSuffix(t, "32"):
		return word
	case strings.HasSuffix(t, "64"):
		return double
	}
	return none
}

// An operand is a register by its place in the file of its class, or a constant by its place among the program's.
type operand struct {
	class  class
	i      int32
	offset int64 // of an address
	base   class // of an address: the class of its base
}

const lanes = 32

type (
	words   = [lanes]uint32
	doubles = [lanes]uint64
)

// An instruction, ready to run.
type instruction struct {
	op     string
	line   int
	row    row
	args   []operand
	guard  int32 // a predicate's place; -1: none
	negate bool
	target int32 // of a branch
	runs   uint64
}

// A program is a kernel with called functions in place of the calls.
type program struct {
	name       string
	code       []instruction
	start      int32           // of the kernel; functions come before it
	registers  [double + 1]int // how many of each class
	constants  []words         // each constant both ways
	wide       []doubles
	paramBytes int
	localBytes int
	threads    int // the most that a block may have
	launches   int
	units      bool             // it has products of a warpgroup
	waits      bool             // it has griddepcontrol.wait
	partly     bool             // it has barriers of some threads
	cells      [param + 1]uint8 // of a memory: the width of its narrowest access, as a power of two
}

// A linker makes a program of a kernel's statements and of the functions that it calls, which come before it: so lanes
// that are inside a function are the lowest, and come back to the others before these go on. No function calls itself;
// so its parameters, its result and the place to come back to are registers.
type linker struct {
	m      *module
	p      *program
	labels map[string]int32
	jumps  map[int]string   // instructions whose target is not known yet
	places map[string]int32 // of constants
	called map[string]callee
}

// A callee is a function that has its place in the program.
type callee struct {
	at     int32
	params []operand
	result operand
	back   operand
}

// A scope is the content of a bracket: names, and families of names (%r<50>).
type scope struct {
	up       *scope
	names    map[string]operand
	families map[string]family
	function string
	back     operand // of a function: where it was called from
}

type family struct {
	class class
	n     int
}

func (s *scope) inner() *scope {
	return &scope{s, map[string]operand{}, map[string]family{}, s.function, s.back}
}

// link is a kernel's program.
func (m *module) link(name string) (*program, error) {
	if p, ok := m.kernels[name]; ok {
		return p, nil
	}
	f, ok := m.functions[name]
	if !ok || !f.entry {
		return nil, fmt.Errorf("there is no kernel %s", name)
	}
	p := &program{name: name, threads: f.threads, cells: [...]uint8{4, 4, 4, 4, 4}}
	l := &linker{m: m, p: p, labels: map[string]int32{}, jumps: map[int]string{}, places: map[string]int32{},
		called: map[string]callee{}}
	top := (&scope{function: name}).inner()
	for i, name := range specials {
		top.names[name] = operand{class: word, i: int32(i)}
	}
	l.p.registers[word] = len(specials)
	for _, q := range f.params {
		top.names[q.name] = l.constant("0", 0, 0)
		p.paramBytes = max(q.bytes, p.paramBytes)
	}
	top.names["dk_shared"] = l.constant(strconv.Itoa(sharedBase), sharedBase, sharedBase)
	err := l.callees(f, top)
	l.p.start = int32(len(l.p.code))
	if err == nil {
		err = l.function(f, top)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	l.p.code = append(l.p.code, instruction{op: "ret", row: rows["ret"], guard: -1})
	for at, label := range l.jumps {
		to, ok := l.labels[label]
		if !ok {
			return nil, fmt.Errorf("%s: line %d: there is no label %s", name, l.p.code[at].line, label)
		}
		l.p.code[at].target = to
	}
	m.kernels[name] = l.p
	return l.p, nil
}

// specials are registers that a launch fills, in the order of their places.
var specials = []string{"%tid.x", "%ctaid.x", "%ctaid.y", "%ntid.x", "%nctaid.x", "%nctaid.y", "%laneid"}

// function adds a function's statements.
func (l *linker) function(f *function, s *scope) error {
	all, err := f.statements()
	if err != nil {
		return err
	}
	for _, st := range all {
		switch st.op {
		case "{":
			s = s.inner()
		case "}":
			s = s.up
		default:
			if err := l.statement(st, s); err != nil {
				return fmt.Errorf("line %d: %s %s: %w", st.line, st.op, strings.Join(st.args, ", "), err)
			}
		}
	}
	return nil
}

func (l *linker) statement(st statement, s *scope) error {
	switch op := st.op; op {
	case ".pragma":
	case ".reg", ".param", ".local":
		return l.declare(op, st.args[0], s)
	case "label":
		l.labels[st.args[0]+"@"+s.function] = int32(len(l.p.code))
	case "call.uni":
		return l.call(st, s)
	case "ret":
		if s.back.class != none {
			st.op = "ret.back"
		}
		if err := l.instruction(st, s); err != nil {
			return err
		}
		l.p.code[len(l.p.code)-1].target = s.back.i
	default:
		return l.instruction(st, s)
	}
	return nil
}

var declared = regexp.MustCompile(`^(?:\.align \d+\s+)?(\.\w+)\s+([%\w]+)(?:<(\d+)>|\[(\d+)\])?$`)

// declare gives names their places. Parameters of calls are registers.
func (l *linker) declare(kind, text string, s *scope) error {
	d := declared.FindStringSubmatch(text)
	if d == nil {
		return fmt.Errorf("a declaration of another form")
	}
	n, _ := strconv.Atoi(d[3] + d[4])
	switch c := classOf(d[1]); {
	case kind == ".local":
		at := (l.p.localBytes + 15) / 16 * 16
		s.names[d[2]] = l.constant(fmt.Sprint(at), uint64(at), uint32(at))
		l.p.localBytes = at + n
	case c == none:
		return fmt.Errorf("registers of %s", d[1])
	case d[3] != "":
		s.families[d[2]] = family{c, n}
	default:
		s.names[d[2]] = l.register(c)
	}
	return nil
}

func (l *linker) register(c class) operand {
	file := c
	if c == half {
		file = word
	}
	l.p.registers[file]++
	return operand{class: c, i: int32(l.p.registers[file] - 1)}
}

// callees gives the functions that one calls their places, unless they have them.
func (l *linker) callees(f *function, top *scope) error {
	all, err := f.statements()
	if err != nil {
		return err
	}
	for _, st := range all {
		if st.op != "call.uni" {
			continue
		}
		name := st.args[0]
		if strings.HasPrefix(name, "(") {
			name = st.args[1]
		}
		g, ok := l.m.functions[name]
		if !ok {
			return fmt.Errorf("there is no function %s", name)
		}
		if _, ok := l.called[name]; !ok {
			if err := l.callee(g, top); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func (l *linker) callee(f *function, top *scope) error {
	if err := l.callees(f, top); err != nil {
		return err
	}
	c := callee{at: int32(len(l.p.code)), back: l.register(word)}
	in := &scope{names: map[string]operand{}, families: map[string]family{}, function: f.name, back: c.back}
	for _, name := range append(specials, "dk_shared") {
		in.names[name] = top.names[name]
	}
	for _, p := range f.params {
		o := l.register(p.class)
		c.params = append(c.params, o)
		in.names[p.name] = o
	}
	if f.result != "" {
		c.result = l.register(word)
		in.names[f.result] = c.result
	}
	l.called[f.name] = c
	return l.function(f, in)
}

// call moves the arguments to the parameters, goes to the function, and moves its result.
func (l *linker) call(st statement, s *scope) error {
	result, args := "", st.args
	if strings.HasPrefix(args[0], "(") {
		result, args = strings.Trim(args[0], "( \n\t)"), args[1:]
	}
	c := l.called[args[0]]
	var given []string
	if len(args) > 1 {
		given = split(strings.Trim(args[1], "( \n\t)"))
	}
	if len(given) != len(c.params) {
		return fmt.Errorf("%d arguments for %d parameters", len(given), len(c.params))
	}
	for i, p := range c.params {
		o, err := l.operand(given[i], s)
		if err != nil {
			return err
		}
		l.pass(p, o, st.line)
	}
	l.p.code = append(l.p.code, instruction{op: "call.uni", line: st.line, row: rows["call"], guard: -1, target: c.at,
		args: []operand{c.back}})
	if result == "" {
		return nil
	}
	o, err := l.operand(result, s)
	l.pass(o, c.result, st.line)
	return err
}

// pass moves a parameter or a result.
func (l *linker) pass(to, from operand, line int) {
	name := "mov.b32"
	if to.class == double {
		name = "mov.b64"
	}
	l.p.code = append(l.p.code, instruction{op: name, line: line, row: rows[name], guard: -1, args: []operand{to, from}})
}

// constant is a number's place among the constants, kept both ways.
func (l *linker) constant(text string, wide uint64, narrow uint32) operand {
	i, ok := l.places[text]
	if !ok {
		i = int32(len(l.p.wide))
		l.places[text] = i
		var w words
		var d doubles
		for lane := range w {
			w[lane], d[lane] = narrow, wide
		}
		l.p.constants, l.p.wide = append(l.p.constants, w), append(l.p.wide, d)
	}
	return operand{class: constant, i: i}
}

// number reads a constant: whole, or the bits of a float (0f3F800000, 0d3FF0000000000000).
func (l *linker) number(text string) (operand, error) {
	switch {
	case strings.HasPrefix(text, "0f"):
		v, err := strconv.ParseUint(text[2:], 16, 32)
		return l.constant(text, math.Float64bits(float64(math.Float32frombits(uint32(v)))), uint32(v)), err
	case strings.HasPrefix(text, "0d"):
		v, err := strconv.ParseUint(text[2:], 16, 64)
		return l.constant(text, v, 0), err
	}
	v, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		var u uint64
		u, err = strconv.ParseUint(text, 0, 64)
		v = int64(u)
	}
	return l.constant(text, uint64(v), uint32(v)), err
}

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

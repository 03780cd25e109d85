package elsewhere

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/darkroom-rl/darkroom/outside/regular"
)

// Python's files of settings, as ml_collections writes them: functions that set config.a.b = VALUE. Nothing runs.
// Values are literals, names of earlier ones, arithmetic, lists, dicts, os.path.join, and other functions of settings.
// Statements of other kinds are left out, and reported.

const (
	mostFile  = 1 << 20
	mostDepth = 20 // of calls, of tables in each other, of files
	mostText  = 64 << 10
	mostLines = 100000 // that are read in all, of files and functions
)

// A table is a ConfigDict, or a dict.
type table struct {
	names []string
	of    map[string]any
	at    map[string]string // FILE:LINE of each
}

func newTable() *table { return &table{of: map[string]any{}, at: map[string]string{}} }

func (t *table) set(name string, v any, at string) {
	if _, ok := t.of[name]; !ok {
		t.names = append(t.names, name)
	}
	t.of[name], t.at[name] = v, at
}

// A module is a file.
type module struct {
	path      string
	functions map[string]function
	order     []string
	names     map[string]any
}

type function struct {
	module *module
	lines  []logical
}

// logical is a statement with its indent.
type logical struct {
	text   string
	indent int
	at     int
}

// python reads files.
type python struct {
	unread []string
	left   int
	loads  int // of files
}

// statements are a file's: comments are left out, and lines in brackets are one.
func statements(text string) (all []logical) {
	open, carried := 0, ""
	at := 0
	for n, line := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		line, open = uncommented(line, open)
		if carried == "" {
			at = n + 1
		}
		whole := carried + line
		if open > 0 || strings.HasSuffix(line, "\\") {
			carried = strings.TrimSuffix(whole, "\\") + " "
			continue
		}
		carried = ""
		if text := strings.TrimSpace(whole); text != "" {
			all = append(all, logical{text, len(whole) - len(strings.TrimLeft(whole, " \t")), at})
		}
	}
	return all
}

// uncommented is a line without its comment, and the number of brackets that are open behind it.
func uncommented(line string, open int) (string, int) {
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#':
			return strings.TrimRight(line[:i], " \t"), open
		case strings.IndexByte("([{", c) >= 0:
			open++
		case strings.IndexByte(")]}", c) >= 0:
			open--
		}
	}
	return strings.TrimRight(line, " \t"), open
}

// load reads a file's functions and names.
func (p *python) load(path string) (*module, error) {
	if p.loads++; p.loads > mostDepth {
		return nil, fmt.Errorf("%s: too many files are loaded", path)
	}
	text, err := regular.Read(path, mostFile)
	if err != nil {
		return nil, err
	}
	m := &module{path: path, functions: map[string]function{}, names: map[string]any{"__file__": path}}
	all := statements(string(text))
	for i := 0; i < len(all); i++ {
		s := all[i]
		name, isFunction := strings.CutPrefix(s.text, "def ")
		if !isFunction {
			if _, _, err := p.statement(m, m.names, s, 0); err != nil {
				p.leaves(m, s, err)
			}
			continue
		}
		end := i + 1
		for end < len(all) && all[end].indent > s.indent {
			end++
		}
		if name, args, _ := strings.Cut(name, "("); strings.HasPrefix(args, ")") {
			m.functions[name] = function{m, all[i+1 : end]}
			m.order = append(m.order, name)
		}
		i = end - 1
	}
	return m, nil
}

func (p *python) leaves(m *module, s logical, err error) {
	p.unread = append(p.unread, fmt.Sprintf("%s:%d: %.60s: %v", filepath.Base(m.path), s.at, s.text, err))
}

// run is a function's result.
func (p *python) run(f function, depth int) (any, map[string]any, error) {
	if depth > mostDepth {
		return nil, nil, errors.New("functions call each other too deeply")
	}
	locals := map[string]any{}
	for i := 0; i < len(f.lines); i++ {
		s := f.lines[i]
		v, returned, err := p.statement(f.module, locals, s, depth)
		if err != nil {
			p.leaves(f.module, s, err)
		}
		if returned {
			return v, locals, nil
		}
		for strings.HasSuffix(s.text, ":") && i+1 < len(f.lines) && f.lines[i+1].indent > s.indent {
			i++ // its block
		}
	}
	return nil, locals, nil
}

var errOther = errors.New("neither an assignment nor a return")

// statement reads one.
func (p *python) statement(m *module, names map[string]any, s logical, depth int) (v any, returned bool, err error) {
	if len(s.text) > mostText {
		return nil, false, errors.New("it is too long")
	}
	if p.left--; p.left < 0 {
		return nil, false, errors.New("the file is too long")
	}
	for _, idle := range []string{"assert", "import", "from", "pass", `"`, "'", "print("} {
		if strings.HasPrefix(s.text, idle) {
			return nil, false, nil
		}
	}
	e := &expression{python: p, module: m, names: names, depth: depth, text: s.text}
	if rest, ok := strings.CutPrefix(s.text, "return"); ok && (rest == "" || rest[0] == ' ') {
		e.text = rest
		v, err := e.whole()
		return v, true, err
	}
	var targets []string
	for {
		name := e.path()
		if name == "" || !e.takes("=") || strings.HasPrefix(e.rest(), "=") {
			break
		}
		targets = append(targets, name)
		e.from = e.at
	}
	if len(targets) == 0 {
		return nil, false, errOther
	}
	e.at = e.from
	if v, err = e.whole(); err != nil {
		v = unknown{}
	}
	where := fmt.Sprintf("%s:%d", filepath.Base(m.path), s.at)
	for _, target := range targets {
		parts := strings.Split(target, ".")
		if len(parts) == 1 {
			names[target] = v
			continue
		}
		at, ok := names[parts[0]].(*table)
		for _, part := range parts[1 : len(parts)-1] {
			if ok {
				at, ok = at.of[part].(*table)
			}
		}
		if !ok {
			return nil, false, fmt.Errorf("%s is no table", parts[0])
		}
		at.set(parts[len(parts)-1], v, where)
	}
	return nil, false, err
}

// unknown is a value that could not be read.
type unknown struct{}

// An expression is read by precedence.
type expression struct {
	*python
	module   *module
	names    map[string]any
	depth    int
	text     string
	at, from int
}

func (e *expression) rest() string { return e.text[e.at:] }

func (e *expression) space() {
	for e.at < len(e.text) && unicode.IsSpace(rune(e.text[e.at])) {
		e.at++
	}
}

func (e *expression) takes(word string) bool {
	e.space()
	if !strings.HasPrefix(e.rest(), word) {
		return false
	}
	if after := e.rest()[len(word):]; isName(word[len(word)-1]) && after != "" && isName(after[0]) {
		return false
	}
	e.at += len(word)
	return true
}

func isName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// path is a dotted name.
func (e *expression) path() string {
	e.space()
	begin := e.at
	for e.at < len(e.text) && (isName(e.text[e.at]) || e.text[e.at] == '.' && e.at > begin) {
		e.at++
	}
	if begin < len(e.text) && e.text[begin] >= '0' && e.text[begin] <= '9' {
		e.at = begin
	}
	return e.text[begin:e.at]
}

func (e *expression) whole() (any, error) {
	v, err := e.choice()
	if err != nil {
		return nil, err
	}
	if e.space(); e.rest() != "" {
		return nil, fmt.Errorf("not read from %.20q on", e.rest())
	}
	return v, nil
}

// choice is a value, or A if CONDITION else B.
func (e *expression) choice() (any, error) {
	v, err := e.compared()
	if err != nil || !e.takes("if") {
		return v, err
	}
	condition, err := e.compared()
	if err != nil {
		return nil, err
	}
	if !e.takes("else") {
		return nil, errors.New("an if without else")
	}
	other, err := e.choice()
	if truth, ok := condition.(bool); err != nil || !ok {
		return nil, errors.Join(err, errOther)
	} else if truth {
		return v, nil
	}
	return other, nil
}

func (e *expression) compared() (any, error) {
	v, err := e.sum()
	if err != nil {
		return nil, err
	}
	for _, sign := range []string{"==", "!=", "<=", ">=", "<", ">"} {
		if !e.takes(sign) {
			continue
		}
		w, err := e.sum()
		if err != nil {
			return nil, err
		}
		a, ok := number(v)
		b, also := number(w)
		if !ok || !also {
			return reflect.DeepEqual(v, w) == (sign == "=="), nil
		}
		return map[string]bool{"==": a == b, "!=": a != b, "<=": a <= b, ">=": a >= b, "<": a < b, ">": a > b}[sign], nil
	}
	return v, nil
}

func (e *expression) sum() (any, error) {
	v, err := e.product()
	for err == nil {
		sign := e.sign("+", "-")
		if sign == "" {
			return v, nil
		}
		var w any
		if w, err = e.product(); err == nil {
			v, err = calculated(v, sign, w)
		}
	}
	return nil, err
}

func (e *expression) product() (any, error) {
	v, err := e.unary()
	for err == nil {
		sign := e.sign("//", "/", "*", "%")
		if sign == "" {
			return v, nil
		}
		var w any
		if w, err = e.unary(); err == nil {
			v, err = calculated(v, sign, w)
		}
	}
	return nil, err
}

func (e *expression) sign(signs ...string) string {
	for _, s := range signs {
		if e.takes(s) {
			return s
		}
	}
	return ""
}

func (e *expression) unary() (any, error) {
	if !e.takes("-") {
		return e.atom()
	}
	v, err := e.unary()
	if err != nil {
		return nil, err
	}
	return calculated(int64(0), "-", v)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func calculated(v any, sign string, w any) (any, error) {
	if a, ok := v.(string); ok && sign == "+" {
		if b, ok := w.(string); ok {
			if len(a)+len(b) > mostText {
				return nil, errors.New("its text is too long")
			}
			return a + b, nil
		}
	}
	a, ok := number(v)
	b, also := number(w)
	if !ok || !also {
		return nil, fmt.Errorf("%s of values that are no numbers", sign)
	}
	if b == 0 && strings.ContainsAny(sign, "/%") {
		return nil, errors.New("a division by 0")
	}
	r := map[string]float64{"+": a + b, "-": a - b, "*": a * b, "/": a / b, "//": math.Floor(a / b), "%": a - b*math.Floor(a/b)}[sign]
	_, whole := v.(int64)
	_, both := w.(int64)
	if whole && both && sign != "/" && math.Abs(r) < 1<<53 && r == math.Trunc(r) {
		return int64(r), nil
	}
	return r, nil
}

// list reads values up to a closing bracket.
func (e *expression) list(end string) (all []any, commas int, err error) {
	for !e.takes(end) {
		v, err := e.choice()
		if err != nil {
			return nil, 0, err
		}
		all = append(all, v)
		if e.takes(",") {
			commas++
		} else if !strings.HasPrefix(strings.TrimSpace(e.rest()), end) {
			return nil, 0, fmt.Errorf("%s is missing at %.20q", end, e.rest())
		}
	}
	return all, commas, nil
}

func (e *expression) atom() (any, error) {
	e.space()
	switch rest := e.rest(); {
	case rest == "":
		return nil, errors.New("a value is missing")
	case e.takes("("):
		all, commas, err := e.list(")")
		if err == nil && len(all) == 1 && commas == 0 {
			return all[0], nil
		}
		return all, err
	case e.takes("["):
		all, _, err := e.list("]")
		return all, err
	case e.takes("{"):
		return e.dict()
	case rest[0] == '"' || rest[0] == '\'' || len(rest) > 1 && strings.IndexByte("fr", rest[0]) >= 0 && (rest[1] == '"' || rest[1] == '\''):
		return e.text1()
	case rest[0] >= '0' && rest[0] <= '9' || rest[0] == '.':
		return e.number()
	}
	return e.named()
}

func (e *expression) dict() (any, error) {
	t := newTable()
	for !e.takes("}") {
		key, err := e.choice()
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok || !e.takes(":") {
			return nil, errors.New("a dict whose keys are no texts")
		}
		v, err := e.choice()
		if err != nil {
			return nil, err
		}
		t.set(name, v, "")
		if !e.takes(",") && !strings.HasPrefix(strings.TrimSpace(e.rest()), "}") {
			return nil, errors.New("} is missing")
		}
	}
	return t, nil
}

// text1 is a quoted text; in f"..." the values of names.
func (e *expression) text1() (any, error) {
	format := false
	if c := e.text[e.at]; c == 'f' || c == 'r' {
		format, e.at = c == 'f', e.at+1
	}
	quote := e.text[e.at]
	end := e.at + 1
	for end < len(e.text) && e.text[end] != quote {
		if e.text[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(e.text) {
		return nil, errors.New("a quotation mark is missing")
	}
	text := e.text[e.at+1 : end]
	e.at = end + 1
	for format && strings.Contains(text, "{") {
		before, inner, _ := strings.Cut(text, "{")
		inner, after, ok := strings.Cut(inner, "}")
		v, err := (&expression{python: e.python, module: e.module, names: e.names, depth: e.depth, text: inner}).whole()
		if err != nil || !ok {
			return nil, errors.Join(err, errors.New("an f-text that is not read"))
		}
		text = before + strings.NewReplacer("{", "(", "}", ")").Replace(fmt.Sprint(v)) + after
	}
	return strings.NewReplacer(`\"`, `"`, `\'`, `'`, `\\`, `\`).Replace(text), nil
}

func (e *expression) number() (any, error) {
	begin := e.at
	for e.at < len(e.text) && (isName(e.text[e.at]) || e.text[e.at] == '.' || strings.IndexByte("+-", e.text[e.at]) >= 0 && strings.IndexByte("eE", e.text[e.at-1]) >= 0) {
		e.at++
	}
	text := strings.ReplaceAll(e.text[begin:e.at], "_", "")
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	return strconv.ParseFloat(text, 64)
}

// named is the value of a name, or of a call.
func (e *expression) named() (any, error) {
	name := e.path()
	switch name {
	case "":
		return nil, fmt.Errorf("not read: %.20q", e.rest())
	case "True", "False":
		return name == "True", nil
	case "None":
		return nil, nil
	}
	if e.takes("(") {
		args, _, err := e.list(")")
		if err != nil {
			return nil, err
		}
		return e.call(name, args)
	}
	parts := strings.Split(name, ".")
	v, ok := e.names[parts[0]]
	if !ok {
		v, ok = e.module.names[parts[0]]
	}
	for _, part := range parts[1:] {
		t, isTable := v.(*table)
		if !isTable {
			return nil, fmt.Errorf("%s is not known", name)
		}
		v, ok = t.of[part]
	}
	if _, no := v.(unknown); !ok || no {
		return nil, fmt.Errorf("%s is not known", name)
	}
	return v, nil
}

func (e *expression) call(name string, args []any) (any, error) {
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i], _ = a.(string)
	}
	switch {
	case name == "os.getcwd":
		return "", nil
	case name == "os.path.dirname" && len(args) == 0, name == "os.path.dirname" && texts[0] == e.module.path:
		return filepath.Dir(e.module.path), nil
	case name == "os.path.join":
		return strings.TrimPrefix(filepath.ToSlash(filepath.Join(texts...)), "./"), nil
	case name == "imp.load_source" && len(args) == 2:
		return e.load(texts[1])
	case strings.HasSuffix(name, "ConfigDict"):
		if len(args) == 1 {
			return args[0], nil
		}
		return newTable(), nil
	case (name == "int" || name == "float") && len(args) == 1:
		n, ok := number(args[0])
		if !ok {
			return nil, fmt.Errorf("%s of no number", name)
		}
		if name == "float" {
			return n, nil
		}
		return int64(n), nil
	case name == "str" && len(args) == 1:
		return fmt.Sprint(args[0]), nil
	}
	m, function := e.module, name
	if of, inner, ok := strings.Cut(name, "."); ok {
		if m, ok = e.module.names[of].(*module); !ok {
			return nil, fmt.Errorf("%s() is not known", name)
		}
		function = inner
	}
	f, ok := m.functions[function]
	if !ok || len(args) > 0 {
		return nil, fmt.Errorf("%s() is not known", name)
	}
	v, _, err := e.run(f, e.depth+1)
	return v, err
}

// readPython is the result of a file's function; the only one, where none is named.
func readPython(path, name string) (*file, error) {
	p := &python{left: mostLines}
	m, err := p.load(path)
	if err != nil {
		return nil, err
	}
	if name == "" {
		if len(m.order) != 1 {
			return nil, fmt.Errorf("%s has %d functions of settings\nhint: %s:NAME, where NAME is one of %s", path, len(m.order), path, strings.Join(m.order, ", "))
		}
		name = m.order[0]
	}
	f, ok := m.functions[name]
	if !ok {
		return nil, fmt.Errorf("%s has no function %s\nhint: there are %s", path, name, strings.Join(m.order, ", "))
	}
	v, locals, err := p.run(f, 0)
	if err != nil {
		return nil, err
	}
	t, ok := v.(*table)
	if !ok {
		return nil, fmt.Errorf("%s: %s returns no settings that are read here: %s", path, name, strings.Join(p.unread, "; "))
	}
	p.unread = slices.Compact(slices.Sorted(slices.Values(p.unread)))
	return &file{program: "flow_grpo", path: path, name: name, locals: locals, settings: flat(t, ""), unread: p.unread}, nil
}

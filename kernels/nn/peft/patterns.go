package peft

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
)

// Patterns are numbers of modules that differ from the rest: expressions for the ends of
// their names, of which the first that matches counts. The order is the file's.
type Patterns []Pattern

// Pattern is a module's, or several modules', number.
type Pattern struct {
	Name  string
	Value float64
}

func (x Pattern) compile() (*regexp.Regexp, error) {
	return regexp.Compile(`^(?:.*\.)?(?:` + x.Name + `)$`)
}

// check says which name is no expression.
func (p Patterns) check(key string) error {
	for _, x := range p {
		if _, err := x.compile(); err != nil {
			return fmt.Errorf("%s: %q is no expression that is known here: %w", key, x.Name, err)
		}
	}
	return nil
}

// find is a module's number.
func (p Patterns) find(module string) (float64, bool) {
	for _, x := range p {
		if re, err := x.compile(); err == nil && re.MatchString(module) {
			return x.Value, true
		}
	}
	return 0, false
}

// UnmarshalJSON reads an object in its order.
func (p *Patterns) UnmarshalJSON(b []byte) error {
	*p = nil
	if string(b) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return fmt.Errorf("an object of names and numbers was expected, not %.40s", b)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		x := Pattern{Name: fmt.Sprint(name)}
		if err := d.Decode(&x.Value); err != nil {
			return fmt.Errorf("%q: %w", x.Name, err)
		}
		*p = append(*p, x)
	}
	return nil
}

// MarshalJSON writes an object in this order.
func (p Patterns) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, x := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(x.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(x.Value)
		if err != nil {
			return nil, err
		}
		b.Write(append(append(name, ':'), value...))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

func (c *decoder) scalar(e *entry, f field, key string, into reflect.Value) {
	v := e.value
	switch kind := into.Kind(); kind {
	case reflect.String:
		c.text(e, f, key, into)
	case reflect.Bool:
		if v.kind != aBool {
			c.wrongType(e, key, "true or false", "")
			return
		}
		into.SetBool(v.truth)
	case reflect.Int, reflect.Int64, reflect.Uint64:
		if v.kind != anInteger {
			hint := ""
			if v.kind == aFloat && v.real == math.Trunc(v.real) && math.Abs(v.real) < 1<<53 {
				hint = fmt.Sprintf("write %d", int64(v.real))
			}
			c.wrongType(e, key, "an integer", hint)
			return
		}
		if kind == reflect.Uint64 && v.whole < 0 {
			c.wrong(e, key, "must be at least 0, is "+v.raw, "")
			return
		}
		if problem := f.limits.wrong(v.real, v.raw); problem != "" {
			c.wrong(e, key, problem, "")
			return
		}
		if kind == reflect.Uint64 {
			into.SetUint(uint64(v.whole))
			return
		}
		if into.OverflowInt(v.whole) {
			c.wrong(e, key, v.raw+" is too large", "")
			return
		}
		into.SetInt(v.whole)
	case reflect.Float64:
		if v.kind != aFloat && v.kind != anInteger {
			c.wrongType(e, key, "a number", "")
			return
		}
		if problem := f.limits.wrong(v.real, v.raw); problem != "" {
			c.wrong(e, key, problem, "")
			return
		}
		into.SetFloat(v.real)
	default:
		panic(fmt.Sprintf("config: %s: a %s cannot be configured", key, into.Type()))
	}
}

// text fills a string. On a command line 7 may be meant as one.
func (c *decoder) text(e *entry, f field, key string, into reflect.Value) {
	v := e.value
	text := v.text
	if v.kind != aString {
		if !c.doc.sources[v.source].set || v.raw == "" {
			c.wrongType(e, key, "a string", "")
			return
		}
		text = v.raw
	}
	if f.required && strings.TrimSpace(text) == "" {
		c.wrong(e, key, "must not be empty", "")
		return
	}
	if len(f.enum) > 0 {
		if problem, hint := oneOf(text, f.enum); problem != "" {
			c.wrong(e, key, problem, hint)
			return
		}
	}
	into.SetString(text)
}

// oneOf says that a text is none of some names.
func oneOf(text string, names []string) (problem, hint string) {
	if slices.Contains(names, text) {
		return "", ""
	}
	if n := Near(text, names); n != "" {
		hint = fmt.Sprintf("did you mean %q?", n)
	}
	var quoted []string
	for _, n := range names {
		quoted = append(quoted, fmt.Sprintf("%q", n))
	}
	return fmt.Sprintf("must be one of %s, is %q", strings.Join(quoted, ", "), text), hint
}

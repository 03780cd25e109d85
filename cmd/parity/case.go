package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/darkroom-rl/darkroom/cmd/internal/device"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// An Op computes the outputs of a case from its inputs. It stops at the first error, by [must], [check] or [failf].
type Op func(c *Case)

// A failure is the panic by which an op stops: its case fails with the error.
type failure struct{ error }

// check stops an op at an error.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must is the value that was computed, if there is no error.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// must2 is must of two values.
func must2[A, B any](a A, b B, err error) (A, B) {
	check(err)
	return a, b
}

// must3 is must of three values.
func must3[A, B, C any](a A, b B, c C, err error) (A, B, C) {
	check(err)
	return a, b, c
}

// each is f of every element.
func each[T, U any](list []T, f func(T) U) []U {
	return eachAt(list, func(_ int, v T) U { return f(v) })
}

// eachAt is f of every element and its place.
func eachAt[T, U any](list []T, f func(i int, v T) U) []U {
	out := make([]U, len(list))
	for i, v := range list {
		out[i] = f(i, v)
	}
	return out
}

// times is f of 0 to n-1.
func times[U any](n int, f func(i int) U) []U {
	out := make([]U, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// to is numbers of another type.
func to[U, T int | int32 | int64 | uint8 | float32 | float64](list []T) []U {
	return each(list, func(x T) U { return U(x) })
}

// failf stops an op with an error of its own.
func failf(format string, args ...any) { check(fmt.Errorf(format, args...)) }

// A Case is one recorded call: its inputs, to be read by name, and its outputs,
// to be computed and Put.
//
// An input that is missing or of another kind gives a zero value, and the case
// fails with a sentence that names it: an op need not check. null is a missing
// value; inside an array it is NaN.
type Case struct {
	Name string
	Op   string

	raw    json.RawMessage // the case as it was recorded
	dir    string          // the folder of the case's file
	path   string          // "config." in Sub("config")
	in     map[string]any  // as decoded: json.Number, string, bool, nil, Array, []any, map[string]any
	tensor func(name string) (Array, bool, error)
	ran    *outcome                       // shared with Subs
	want   map[string]any                 // for Recorded alone
	open   func() (device.Backend, error) // its backend
	source nn.Source                      // of weights, in place of the folder's files

	networks string // folder of published networks; empty: none
}

// outcome is the result of an op.
type outcome struct {
	err  error // the first complaint about an input
	out  map[string]any
	read map[string]bool // inputs that the op asked for, by their paths; "NAME.*": all below
}

func newCase(name, op, dir string, in map[string]any) *Case {
	return &Case{Name: name, Op: op, dir: dir, in: in, ran: &outcome{out: map[string]any{}, read: map[string]bool{}}, open: openCPU}
}

// Put records an output: a number, bool, string, Array, a slice or a
// map[string]any of these, nested as needed. nil and NaN are null. More outputs follow as names and values.
func (c *Case) Put(name string, v any, more ...any) {
	c.ran.out[name] = v
	for i := 0; i < len(more); i += 2 {
		c.ran.out[more[i].(string)] = more[i+1]
	}
}

// like is rows in the shape of an input.
func (c *Case) like(input string, rows [][]float64) Array {
	return Array{c.Array(input).Shape, flat(rows)}
}

// Recorded is a list of whole numbers among the case's outputs that was drawn, not computed: other recorded values
// follow from it.
func (c *Case) Recorded(name string) []int {
	a, err := arrayOf(c.want[name])
	if err != nil {
		c.complain("output %q: an array of whole numbers was expected", name)
		return nil
	}
	ints := make([]int, len(a.Data))
	for i, x := range a.Data {
		ints[i] = int(x)
	}
	return ints
}

// LeavesOut names outputs of other conventions, which the README of the cases lets an implementation leave out.
func (c *Case) LeavesOut(names ...string) {
	for _, name := range names {
		delete(c.want, name)
	}
}

// Dir is the folder that the case's file lies in.
func (c *Case) Dir() string { return c.dir }

// File is the path of a file of the case's folder that the input name names.
func (c *Case) File(name string) string {
	path, err := safetensors.Locate(c.dir, c.String(name))
	if err != nil {
		c.complain("%v", err)
	}
	return path
}

// Has reports whether an input is there and not null.
func (c *Case) Has(name string) bool {
	v, ok := c.find(name)
	return ok && v != nil
}

// Given reads an input into a setting if the case has it; more follow as names and pointers.
func (c *Case) Given(name string, to any, more ...any) {
	if c.Has(name) {
		switch to := to.(type) {
		case *float64:
			*to = c.Float(name)
		case *int:
			*to = c.Int(name)
		case *bool:
			*to = c.Bool(name)
		case *string:
			*to = c.String(name)
		case *[]float64:
			*to = c.Floats(name)
		case *[]int:
			*to = c.Ints(name)
		case *[]string:
			*to = c.Strings(name)
		case *[][]float64:
			*to = mat(c, name)
		default:
			panic(fmt.Sprintf("no input is read into a %T", to))
		}
	}
	if len(more) > 0 {
		c.Given(more[0].(string), more[1], more[2:]...)
	}
}

// Raw is an input as it was decoded: numbers are float64, lists []any, objects
// map[string]any, arrays Array.
func (c *Case) Raw(name string) any {
	c.ran.read[c.path+name+".*"] = true
	return plain(c.need(name))
}

// Text is an input's JSON as it was recorded: the order of keys and the form of numbers are
// lost once it is decoded.
func (c *Case) Text(name string) string {
	c.ran.read[c.path+name], c.ran.read[c.path+name+".*"] = true, true
	var doc struct {
		In map[string]json.RawMessage `json:"in"`
	}
	if err := json.Unmarshal(c.raw, &doc); err != nil || doc.In[name] == nil {
		c.complain("input %q is missing", c.path+name)
	}
	return string(doc.In[name])
}

// Float is a number.
func (c *Case) Float(name string) float64 {
	x, ok := float(c.need(name))
	if !ok {
		c.wrong(name, "a number")
	}
	return x
}

// Int is a whole number.
func (c *Case) Int(name string) int {
	n, ok := integer(c.need(name))
	if !ok {
		c.wrong(name, "a whole number")
	}
	return n
}

// Bool is true or false, or 1 or 0.
func (c *Case) Bool(name string) bool {
	v := c.need(name)
	if b, ok := v.(bool); ok {
		return b
	}
	n, ok := integer(v)
	if !ok || n != 0 && n != 1 {
		c.wrong(name, "true or false")
	}
	return n == 1
}

// String is a text.
func (c *Case) String(name string) string {
	s, ok := c.need(name).(string)
	if !ok {
		c.wrong(name, "a text")
	}
	return s
}

// Array is an array, or a list of numbers, or lists of one length of them, or a
// number: shape [].
func (c *Case) Array(name string) Array {
	a, err := arrayOf(c.need(name))
	if err != nil {
		c.wrong(name, "an array of numbers")
	}
	return a
}

// Floats is an array's data, row-major.
func (c *Case) Floats(name string) []float64 { return c.Array(name).Data }

// Ints is an array's data where every element is a whole number.
func (c *Case) Ints(name string) []int {
	data := c.Array(name).Data
	ints := make([]int, len(data))
	for i, x := range data {
		ints[i] = int(x)
		if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
			c.wrong(name, "whole numbers")
			return nil
		}
	}
	return ints
}

// Strings is a list of texts. Numbers give their digits: both serve as names of
// prompts.
func (c *Case) Strings(name string) []string {
	v := c.need(name)
	if a, ok := v.(Array); ok {
		texts := make([]string, len(a.Data))
		for i, x := range a.Data {
			texts[i] = strconv.FormatFloat(x, 'g', -1, 64)
		}
		return texts
	}
	list, ok := v.([]any)
	if !ok {
		c.wrong(name, "a list of texts")
		return nil
	}
	texts := make([]string, len(list))
	for i, e := range list {
		switch e := e.(type) {
		case string:
			texts[i] = e
		case json.Number:
			texts[i] = e.String()
		default:
			c.wrong(name, "a list of texts")
			return nil
		}
	}
	return texts
}

// Sub is an object within the inputs.
func (c *Case) Sub(name string) *Case {
	m, ok := c.need(name).(map[string]any)
	if !ok {
		c.wrong(name, "an object")
	}
	return c.sub(name, m)
}

// Subs is a list of objects.
func (c *Case) Subs(name string) []*Case {
	list, ok := c.need(name).([]any)
	if !ok {
		c.wrong(name, "a list of objects")
	}
	subs := make([]*Case, len(list))
	for i, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			c.wrong(name, "a list of objects")
		}
		subs[i] = c.sub(fmt.Sprintf("%s[%d]", name, i), m)
	}
	return subs
}

func (c *Case) sub(name string, in map[string]any) *Case {
	return &Case{Name: c.Name, Op: c.Op, dir: c.dir, path: c.path + name + ".", in: in, ran: c.ran, open: c.open, networks: c.networks}
}

// find looks an input up: among the case's fields, then among its tensors.
func (c *Case) find(name string) (any, bool) {
	c.ran.read[c.path+name] = true
	if v, ok := c.in[name]; ok {
		return v, true
	}
	if c.tensor == nil {
		return nil, false
	}
	a, ok, err := c.tensor(name)
	if err != nil {
		c.complain("%v", err)
	}
	return a, ok && err == nil
}

// absent is need's result for a missing input; the complaint is recorded already.
type absent struct{}

func (c *Case) need(name string) any {
	v, ok := c.find(name)
	if !ok || v == nil {
		c.complain("input %q is missing", c.path+name)
		return absent{}
	}
	return v
}

func (c *Case) wrong(name, want string) { c.complain("input %q is not %s", c.path+name, want) }

// complain keeps the first complaint: later ones follow from its zero value.
func (c *Case) complain(format string, args ...any) {
	if c.ran.err == nil {
		c.ran.err = fmt.Errorf(format, args...)
	}
}

// Skipped is the error of an op that this machine cannot run: an outside engine
// is absent, or of another version.
type Skipped struct{ Reason string }

func (s Skipped) Error() string { return "skipped: " + s.Reason }

// An Array is a recorded tensor, row-major. null became NaN.
type Array struct {
	Shape []int
	Data  []float64
}

// decode reads JSON with its numbers as written, and arrays as Array.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return recognise(v)
}

// recognise replaces {"shape": ..., "data": ...} by an Array, at any depth.
func recognise(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			if v[i], err = recognise(e); err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
		}
	case map[string]any:
		shape, isShape := v["shape"].([]any)
		data, isData := v["data"].([]any)
		if isShape && isData && len(v) == 2 {
			return newArray(shape, data)
		}
		for k, e := range v {
			if v[k], err = recognise(e); err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
		}
	}
	return v, nil
}

func newArray(shape, data []any) (a Array, err error) {
	a.Shape = make([]int, len(shape))
	for i, s := range shape {
		n, ok := integer(s)
		if !ok || n < 0 {
			return a, fmt.Errorf("an array's shape holds %v", s)
		}
		a.Shape[i] = n
	}
	if !fits(a.Shape, len(data)) {
		return a, fmt.Errorf("an array of shape %v has %d elements", a.Shape, len(data))
	}
	a.Data, err = floats(data)
	return a, err
}

// fits reports whether a shape has n elements, for any sizes.
func fits(shape []int, n int) bool {
	elements := 1
	for _, s := range shape {
		if s == 0 {
			return n == 0
		}
	}
	for _, s := range shape {
		if elements > n/s {
			return false
		}
		elements *= s
	}
	return elements == n
}

func floats(list []any) ([]float64, error) {
	data := make([]float64, len(list))
	for i, e := range list {
		if e == nil {
			data[i] = math.NaN()
			continue
		}
		x, ok := float(e)
		if !ok {
			return nil, fmt.Errorf("element %d of an array is not a number", i)
		}
		data[i] = x
	}
	return data, nil
}

var errNotNumbers = errors.New("not an array of numbers")

// arrayOf makes an Array of anything that can be one.
func arrayOf(v any) (Array, error) {
	if x, ok := float(v); ok {
		return Array{Data: []float64{x}}, nil
	}
	switch v := v.(type) {
	case Array:
		return v, nil
	case []any:
		return stack(v)
	}
	return Array{}, errNotNumbers
}

// stack joins a list of numbers, or of lists that have one shape.
func stack(list []any) (Array, error) {
	all := Array{Shape: []int{len(list)}}
	for i, e := range list {
		row := Array{Data: []float64{math.NaN()}}
		if e != nil {
			var err error
			if row, err = arrayOf(e); err != nil {
				return Array{}, err
			}
		}
		if i == 0 {
			all.Shape = append(all.Shape, row.Shape...)
		}
		if !sameShape(row.Shape, all.Shape[1:]) {
			return Array{}, errNotNumbers
		}
		all.Data = append(all.Data, row.Data...)
	}
	return all, nil
}

func sameShape(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// float reads a number or a bool.
func float(v any) (float64, bool) {
	switch v := v.(type) {
	case json.Number:
		x, err := strconv.ParseFloat(v.String(), 64)
		return x, err == nil
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// integer reads a whole number, written with or without a point.
func integer(v any) (int, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	if i, err := strconv.Atoi(n.String()); err == nil {
		return i, true
	}
	x, ok := float(v)
	return int(x), ok && x == math.Trunc(x) && math.Abs(x) <= 1<<53
}

// plain turns numbers into float64 at any depth, in a copy.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		x, _ := float(v)
		return x
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = plain(e)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = plain(e)
		}
		return m
	case absent:
		return nil
	}
	return v
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

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

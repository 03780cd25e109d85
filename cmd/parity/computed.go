package main

import (
	"fmt"
	"reflect"
	"strconv"
)

// What ops Put, in whatever Go type was at hand.

// number reads a computed scalar.
func number(got any) (float64, bool) {
	if a, ok := got.(Array); ok && len(a.Shape) == 0 && len(a.Data) == 1 {
		return a.Data[0], true
	}
	if b, ok := got.(bool); ok {
		return float(b)
	}
	v := reflect.ValueOf(got)
	switch {
	case v.CanFloat():
		return v.Float(), true
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanUint():
		return float64(v.Uint()), true
	}
	return 0, false
}

// flatten reads a number, or slices of numbers at any depth.
func flatten(got any) ([]float64, bool) {
	if data, ok := got.([]float64); ok {
		return data, true
	}
	if a, ok := got.(Array); ok {
		return a.Data, true
	}
	if x, ok := number(got); ok {
		return []float64{x}, true
	}
	v := reflect.ValueOf(got)
	if v.Kind() != reflect.Slice {
		return nil, false
	}
	data := []float64{}
	for i := range v.Len() {
		part, ok := flatten(v.Index(i).Interface())
		if !ok {
			return nil, false
		}
		data = append(data, part...)
	}
	return data, true
}

// rows splits an array along its first axis.
func rows(a Array) []any {
	if len(a.Shape) == 0 {
		return nil
	}
	list := make([]any, a.Shape[0])
	for i := range list {
		size := len(a.Data) / a.Shape[0]
		row := a.Data[i*size : (i+1)*size]
		if len(a.Shape) == 1 {
			list[i] = row[0]
		} else {
			list[i] = Array{a.Shape[1:], row}
		}
	}
	return list
}

// show is a computed value for people, not longer than a line.
func show(v any) string {
	if a, ok := v.(Array); ok {
		return fmt.Sprintf("an array of shape %v", a.Shape)
	}
	text := fmt.Sprint(v)
	if s, ok := v.(string); ok {
		text = strconv.Quote(s)
	}
	if len(text) > 80 {
		text = text[:80] + "..."
	}
	return text
}

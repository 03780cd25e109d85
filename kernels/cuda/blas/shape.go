package blas

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strings"
)

// A Shape is what an algorithm is chosen for: a weight, whatever the number of rows that meet it.
type Shape struct {
	N, K   int64
	Turned bool // the weight lies as [K,N]
}

func (s Shape) String() string {
	if s.Turned {
		return fmt.Sprintf("[%d,%d] turned", s.K, s.N)
	}
	return fmt.Sprintf("[%d,%d]", s.N, s.K)
}

// way is the shape's place in Library.operation.
func (s Shape) way() int {
	if s.Turned {
		return 1
	}
	return 0
}

// Layouts describe a shape's operands; columns of rows and of sums are the product's rows.
type Layouts struct {
	weight, rows, sums uintptr
	M                  int64 // the rows, as they are set
	LDWeight, LDRows   int64
}

// Describe makes a shape's layouts, for m rows.
func (l *Library) Describe(s Shape, m int64) (at Layouts, err error) {
	rows, cols := s.K, s.N // by columns, a weight [N,K] is K x N
	if s.Turned {
		rows, cols = s.N, s.K
	}
	at.M, at.LDWeight, at.LDRows = m, rows, s.K
	if at.weight, err = l.layout(typeBF16, rows, cols, rows); err != nil {
		return at, err
	}
	if at.rows, err = l.layout(typeBF16, s.K, at.M, at.LDRows); err != nil {
		return at, err
	}
	at.sums, err = l.layout(typeF32, s.N, at.M, SumsWide(s.N))
	return at, err
}

// SumsWide is the distance between rows of n sums: whole pieces of 16 bytes.
func SumsWide(n int64) int64 { return (n + 3) / 4 * 4 }

// Forget ends layouts.
func (l *Library) Forget(at *Layouts) (err error) {
	for _, x := range []uintptr{at.weight, at.rows, at.sums} {
		if x != 0 {
			err = cmp.Or(err, l.do("cublasLtMatrixLayoutDestroy", x))
		}
	}
	return err
}

// Fit sets what of a shape's layouts differs from call to call.
func (l *Library) Fit(at *Layouts, ldWeight, ldRows, m int64) (err error) {
	if at.LDWeight != ldWeight {
		err = l.distance(at.weight, ldWeight)
	}
	if err == nil && at.LDRows != ldRows {
		err = l.distance(at.rows, ldRows)
	}
	if err == nil && at.M != m {
		err = cmp.Or(l.columns(at.rows, m), l.columns(at.sums, m))
	}
	at.LDWeight, at.LDRows, at.M = ldWeight, ldRows, m
	return err
}

// Whole are the algorithms that the library proposes, can run in a workspace, and sum nothing across blocks.
func (l *Library) Whole(s Shape, at *Layouts, workspace uint64) (list []Candidate, err error) {
	all, err := l.ask(s, at)
	for _, a := range all {
		if a.State != 0 || a.Workspace > workspace {
			continue
		}
		splits, failed := l.config(&a.Algorithm, configSplits)
		scheme, failed2 := l.config(&a.Algorithm, configScheme)
		if failed == nil && failed2 == nil && splits <= 1 && scheme == 0 {
			list = append(list, a)
		}
	}
	return list, err
}

// Text is an algorithm as 128 hexadecimal digits.
func (a *Algorithm) Text() string {
	var b strings.Builder
	for _, w := range a {
		fmt.Fprintf(&b, "%016x", w)
	}
	return b.String()
}

// ReadAlgorithm reads Text's.
func ReadAlgorithm(s string) (a Algorithm, err error) {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != 8*len(a) {
		return a, fmt.Errorf("%.20q is no algorithm: 128 hexadecimal digits", s)
	}
	for i := range a {
		for _, x := range raw[8*i : 8*i+8] {
			a[i] = a[i]<<8 | uint64(x)
		}
	}
	return a, nil
}

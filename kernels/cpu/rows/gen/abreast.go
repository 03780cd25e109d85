package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Long bodies, four vectors abreast. A body that is one long chain, like that of e^x,
// leaves units idle when vectors come one after another: what waits for its operands
// fills the scheduler before the next chain is reached. So on AVX-512 the four vectors
// of a block take turns, instruction by instruction, in registers of their own: 0 to n-1
// of the body become four times n. What stays the same over the loop, the job's
// numbers and the constants, is held in registers from 31 down, as far as they reach.

func (v *vector) together() bool { return v.k.abreast > 0 && v.wide() }

// own is the register of the current vector for one of the body's.
func (v *vector) own(r int) int {
	if v.together() && r < v.k.abreast {
		return r + v.k.abreast*v.j
	}
	return r
}

// held is the register that holds what name says; none where all are taken.
func (v *vector) held(name string) (r int, ok bool) {
	const top = 31
	lowest := max(16, 4*v.k.abreast)
	if v.k.sum || v.k.max {
		lowest = 20 // below are the lanes
	}
	i := slices.Index(v.names, name)
	if i < 0 {
		i = len(v.names)
		if top-i < lowest {
			return 0, false
		}
		v.names = append(v.names, name)
	}
	return top - i, true
}

// rehearse finds what the body asks to be held, and loads it.
func (v *vector) rehearse() {
	v.names, v.j = nil, 0
	if v.k.body == nil {
		return
	}
	v.written(v.k.body)
	for _, name := range v.names {
		inst := "VMOVUPS"
		if strings.HasPrefix(name, "job_s") {
			inst = "VBROADCASTSS"
		}
		r, _ := v.held(name)
		v.op(inst, name, fmt.Sprintf("Z%d", r))
	}
}

// written is what a body writes, which is taken back.
func (v *vector) written(body func(v *vector)) []string {
	at := v.Len()
	body(v)
	lines := strings.SplitAfter(string(bytes.Clone(v.Bytes()[at:])), "\n")
	v.Truncate(at)
	return lines[:len(lines)-1]
}

// turns writes a block whose vectors take turns, up to the store: that needs a mask.
func (v *vector) turns() {
	var lines [][]string
	compute := 0
	for v.j = 0; v.j < 64/v.lanes(); v.j++ {
		v.stored = 0
		at := bytes.Count(v.Bytes(), []byte("\n"))
		lines = append(lines, v.written(v.k.body))
		compute = v.stored - at
	}
	for i := range compute {
		for _, l := range lines {
			v.WriteString(l[i])
		}
	}
	for _, l := range lines {
		v.WriteString(strings.Join(l[compute:], ""))
	}
}

// ask requests what the next call reads and writes, while this one computes.
func (v *vector) ask() {
	if v.masked {
		return
	}
	size := map[byte]int{'f': 4, 'b': 2}[v.types[0]]
	for i, letter := range v.k.src {
		for at := 0; at < 64*size && (letter == 'p' || letter == 'w'); at += 64 {
			v.op("PREFETCHT0", fmt.Sprintf("%d(%s)(CX*%d)", at, srcRegs[i], size))
		}
	}
}

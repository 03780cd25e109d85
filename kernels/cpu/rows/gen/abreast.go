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
// of a block take turns, instruction by instruction, in registers of their own: 0 to 3
// of the body become four times four. What stays the same over the loop, the job's
// numbers and the constants, is held in registers from 31 down.

func (v *vector) together() bool { return v.k.abreast && v.wide() }

const (
	bodyRegs = 4
	topReg   = 31
	lastHeld = 20 // below are the lanes of sums
)

// own is the register of the current vector for one of the body's.
func (v *vector) own(r int) int {
	if v.together() && r < bodyRegs {
		return r + bodyRegs*v.j
	}
	return r
}

// hold is the register that holds what name says.
func (v *vector) hold(name string) int {
	i := slices.Index(v.held, name)
	if i < 0 {
		i = len(v.held)
		v.held = append(v.held, name)
	}
	if topReg-i < lastHeld {
		panic(v.k.name + " holds too much")
	}
	return topReg - i
}

// rehearse finds what the body asks to be held, and loads it.
func (v *vector) rehearse() {
	v.held, v.j = nil, 0
	if v.k.body == nil {
		return
	}
	v.written(v.k.body)
	for i, name := range v.held {
		inst := "VMOVUPS"
		if strings.HasPrefix(name, "job_s") {
			inst = "VBROADCASTSS"
		}
		v.op(inst, name, topReg-i)
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

// turns writes a block whose vectors take turns.
func (v *vector) turns() {
	var lines [][]string
	for v.j = 0; v.j < 64/v.lanes(); v.j++ {
		lines = append(lines, v.written(v.k.body))
	}
	for i := range lines[0] {
		for _, l := range lines {
			v.WriteString(l[i])
		}
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

package ptxtest

import "strings"

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

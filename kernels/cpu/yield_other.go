//go:build !linux

package cpu

// patience is how long an idle worker looks before it parks: yielding was measured on Linux alone.
const patience = spin

func yield() {}

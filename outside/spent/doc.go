// Package spent says how much of the CPUs this process has had. A clock on the wall also counts the time in which a
// process was stopped, or others took its turns.
//
// Start with CPU.
package spent

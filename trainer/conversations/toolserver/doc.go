// Package toolserver calls tools of other programs: servers over HTTP, and programs over lines of JSON.
//
// Start with toolserver.go: Open opens the tools of an experiment, Begin a Session of one episode, which answers calls.
// environment.go has tools that keep a state and return a reward; pixels.go bounds how many pixels their pictures hold.
package toolserver

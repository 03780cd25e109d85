// Package child starts programs so that they can be ended with all their children: a program that
// is a script leaves the interpreter behind when it alone is killed, and that keeps its memory.
//
// Apart before the start, Kill at the end. A process that leaves the group by itself (setsid) is out of reach.
package child

// Package machine asks the system for its CPU, its memory, and the most that this process had of it.
package machine

// Bytes; 0 where the system does not say.
type RAM struct {
	Total     uint64 `json:"total"`
	Available uint64 `json:"available"`
}

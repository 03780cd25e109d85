// Package call asks servers and programs outside, which may be slow, gone or lying: every try has
// a time limit, passing failures are tried again after a pause that grows and differs, replies
// are cut off at a size, only so many calls run at once, and what was answered once is remembered
// by what was asked.
//
// Start with Policy in policy.go. post.go asks over HTTP, cache.go remembers.
package call

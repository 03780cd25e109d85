// Package call asks servers and programs outside, which may be slow, gone or lying: every try has
// a time limit, transient failures are retried after a growing pause with jitter, replies
// are cut off at a size, the number of calls at once is bounded, and answers are cached by their
// request.
//
// Start with Policy in call.go. post.go asks over HTTP, cache.go remembers.
package call

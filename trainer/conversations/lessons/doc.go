// Package lessons reads demonstrations of files: conversations to imitate, and answers that somebody judged.
//
// Start with lessons.go: a Reader turns rows into tokens with their loss mask. file.go reads the files, counts.go keeps
// how many tokens rows have, preferences.go has judged answers.
package lessons

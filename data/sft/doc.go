// Package sft makes lessons of conversations: the tokens of a data set's row, and which of them
// are trained. Two published programs do it, and they disagree:
//
//	whole  TRL: the whole conversation is one text, and the tokens that touch an answer are
//	       trained. These are the tokens that a rollout has (lesson.go).
//	turns  LLaMA-Factory: every turn is tokenised by itself (lesson.go, rows.go), so that an
//	       answer that begins with a newline has other tokens than a rollout's.
//
// Both train the newline behind <|im_end|>, which every rollout that goes on has there.
// Start with Lesson. Rows come from strangers: an unusable row is an error, or Dropped where upstream drops it
// silently.
package sft

package tools

import (
	"strings"
	"unicode/utf8"
)

// Card: a model's own words come back to it in observations: the name of an unknown tool, a label, its code's output,
// text that a tool read in a picture. A special token among them would be read as one: it could open a turn of the
// user, or claim a place for a picture that does not exist. Each special token is therefore broken by a blank after
// its first character ("<|im_end|>" becomes "< |im_end|>") before the protocol writes the observation. Three sets are
// broken: everything in Qwen's form "<|", the protocol's own place-holder, and the special tokens of the model's
// vocabulary. Published protocols tell the words back as they are; they differ from this only where a model writes a
// special token, which ends or corrupts the episode upstream.
//
// Invariant (test): in every protocol, whatever a model or a program writes, the observation holds
// exactly the special tokens that the protocol's template holds.

// defuse makes special tokens in a result's words plain text, and counts them.
func (r *Result) defuse(special []string, pad string) int {
	text, n := defused(r.Text, special, pad)
	r.Text = text
	if r.Refusal == nil {
		return n
	}
	message, more := defused(r.Refusal.Message, special, pad)
	if more > 0 {
		refusal := *r.Refusal
		refusal.Message = message
		r.Refusal = &refusal
	}
	return n + more
}

// defused is a text without special tokens, and how many it held.
func defused(text string, special []string, pad string) (string, int) {
	text, n := broken(text, "<|", 0)
	text, n = broken(text, pad, n)
	for _, token := range special {
		text, n = broken(text, token, n)
	}
	return text, n
}

// broken puts a blank behind the first character of each occurrence of a token, and counts on from n.
func broken(text, token string, n int) (string, int) {
	found := strings.Count(text, token)
	if token == "" || found == 0 {
		return text, n
	}
	_, first := utf8.DecodeRuneInString(token)
	if first == len(token) { // one character alone: no place behind it
		return strings.ReplaceAll(text, token, " "), n + found
	}
	return strings.ReplaceAll(text, token, token[:first]+" "+token[first:]), n + found
}

// mostOfTurn is how many pictures one turn makes at most.
const mostOfTurn = 16

// limit refuses a call whose pictures would be too many for the turn, of which made were planned
// before it, or for the album.
func (r *Result) limit(s *State, made int) {
	more := len(r.Ops) + len(r.Ready)
	if r.Refusal != nil || more == 0 {
		return
	}
	switch {
	case made+more > mostOfTurn:
		r.Refusal = refuse(Failed, "Exception", "a turn makes at most %d pictures", mostOfTurn)
	case s.Most > 0 && len(s.Album.Pictures)+made+more > s.Most:
		r.Refusal = refuse(Failed, "Exception", "no more than %d pictures are shown in one conversation", s.Most)
	default:
		return
	}
	r.Ops, r.Ready = nil, nil
}

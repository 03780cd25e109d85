package tokenizer

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/outside/spent"
)

// Card: what a text may cost. A tokenizer's file is a stranger's: its expressions may take time that
// grows exponentially, and its replacements may make a text a million times as long. A text that costs
// more than the limits below is an error, and never other tokens: ids must not depend on how busy a
// machine is. So where time ran out, and the process had less of a CPU than that (it was stopped, or others took its
// turns), the text is encoded again. Text that is not UTF-8 is an error, too:
// byte offsets of matches are those of characters.
//
// Invariants (tests): no file of 64 KB makes an encoding take more than about twice workTime of a CPU that it has to
// itself, or more memory than a few times mostText.

const (
	workTime  = 5 * time.Second // of all matching in one text
	mostTries = 60              // encodings of one text
	mostText  = 4 << 20         // bytes of a text, before and after it is rewritten
	mostWord  = 1 << 10         // bytes of what a file puts around or in the place of words
)

// work is what one text has cost so far. The first limit that is met ends it: what follows does nothing.
type work struct {
	begun time.Time
	late  bool // time ran out
	err   error
}

func begin(text string) *work {
	w := &work{begun: time.Now()}
	if !utf8.ValidString(text) {
		at := 0
		for r, n := utf8.DecodeRuneInString(text); r != utf8.RuneError || n != 1; r, n = utf8.DecodeRuneInString(text[at:]) {
			at += n
		}
		w.fail("the text is not UTF-8: its byte %d is %#x", at, text[at])
	}
	w.holds(len(text))
	return w
}

func (w *work) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// holds reports whether a text of n bytes is within the limits.
func (w *work) holds(n int) bool {
	if n > mostText {
		w.fail("the tokenizer makes a text of %d bytes; at most %d are encoded", n, mostText)
	}
	return w.err == nil
}

// goesOn reports whether there is time left.
func (w *work) goesOn() bool {
	if w.err == nil && time.Since(w.begun) > workTime {
		w.late = true
		w.fail("the tokenizer's expressions take more than %v for one text: they are broken, or made to be slow", workTime)
	}
	return w.err == nil
}

// starved reports whether time ran out although all tries together had too little of a CPU.
func (w *work) starved(had time.Duration) bool {
	return spent.Known && w.late && had < workTime*3/4
}

// short refuses what a file would put around words, or in their place, if it is too long.
func short(what, text string) error {
	if len(text) > mostWord {
		return fmt.Errorf("%s of %d bytes: at most %d are usual", what, len(text), mostWord)
	}
	return nil
}

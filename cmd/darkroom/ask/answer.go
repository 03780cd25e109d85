package ask

import (
	"fmt"
	"io"
	"strings"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// answer is a conversation, as --json prints it.
type answer struct {
	Question   string            `json:"question"`
	Said       []string          `json:"said"` // by the model, a turn each
	Answer     string            `json:"answer"`
	End        tools.End         `json:"end"`
	Transcript *tools.Transcript `json:"transcript"`
}

func newAnswer(question string, e *rollout.Episode) *answer {
	return &answer{question, e.Texts, e.Answer, e.End, e.Transcript}
}

// write is the conversation for people.
func (a *answer) write(w io.Writer) {
	fmt.Fprintf(w, "user: %s\n", console.Printable(a.Question))
	a.shots(w, -1)
	for i, text := range a.Said {
		fmt.Fprintf(w, "assistant: %s\n", console.Printable(strings.TrimSpace(text)))
		if i < len(a.Transcript.Turns) {
			for _, c := range a.Transcript.Turns[i].Calls {
				fmt.Fprintf(w, "  calls %s%s\n", console.Printable(c.Tool), refusedWords(c))
			}
		}
		a.shots(w, i)
	}
	if a.Answer != "" {
		fmt.Fprintf(w, "\nanswer: %s\n", console.Printable(a.Answer))
	} else {
		fmt.Fprintf(w, "\nno answer: the episode ended with %q\n", a.End)
	}
}

func refusedWords(c tools.CallTaken) string {
	if c.Refused == "" {
		return ""
	}
	return fmt.Sprintf(", refused (%s): %s", c.Refused, console.Printable(c.Message))
}

// shots are the pictures that a turn shows.
func (a *answer) shots(w io.Writer, turn int) {
	for i, s := range a.Transcript.Shots {
		if s.Turn != turn {
			continue
		}
		fmt.Fprintf(w, "  picture %d: %d x %d", i+1, s.Width, s.Height)
		if s.ShownWidth != s.Width || s.ShownHeight != s.Height {
			fmt.Fprintf(w, ", shown as %d x %d", s.ShownWidth, s.ShownHeight)
		}
		if turn >= 0 && s.Root >= 0 {
			fmt.Fprintf(w, ", of picture %d from (%.0f, %.0f) to (%.0f, %.0f)", s.Root+1, s.Box[0], s.Box[1], s.Box[2], s.Box[3])
		}
		fmt.Fprintln(w)
	}
}

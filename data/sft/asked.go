package sft

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/vision/pytext"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// ReadAsked reads a row's messages before the assistant's turn: "prompt" as a list of messages (verl's
// rows, TRL's), with "images", "tools" and "system" as in ReadConversation. Such a conversation ends with the user.
func ReadAsked(text string) (c Conversation, err error) {
	v, err := pytext.OrderedJSON(text)
	if err != nil {
		return c, err
	}
	o, ok := v.(pytext.Ordered)
	if !ok {
		return c, errors.New("an object was expected")
	}
	list, ok := o.Values["prompt"].([]any)
	if !ok {
		return c, errors.New(`"prompt": a list of messages was expected`)
	}
	if c, err = conversationOf(o, list, "prompt"); err != nil {
		return c, err
	}
	switch n := len(c.Messages); {
	case n == 0:
		return c, errors.New(`"prompt" has no message`)
	case c.Messages[n-1].Role != "user":
		return c, fmt.Errorf(`"prompt" ends with a turn of %q, and the user's was expected`, c.Messages[n-1].Role)
	}
	return c, c.checkMarks()
}

// checkMarks: a picture or a clip for each mark.
func (c Conversation) checkMarks() error {
	marks := map[vlm.PartKind]int{}
	for _, m := range c.Messages {
		for _, p := range m.Content {
			marks[p.Kind]++
		}
	}
	if n := marks[vlm.PicturePart]; n != len(c.Pictures) {
		return fmt.Errorf("%w: %d pictures, and %d marks in the messages", ErrPictures, len(c.Pictures), n)
	}
	if n := marks[vlm.ClipPart]; n != len(c.Clips) {
		return fmt.Errorf("%w: %d clips, and %d marks in the messages", ErrPictures, len(c.Clips), n)
	}
	return nil
}

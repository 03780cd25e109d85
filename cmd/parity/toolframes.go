package main

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Recorded calls of tools that choose among frames and crops (toolcalls.go has the others).

func toolPixelReasoner(c *Case) {
	a := &tools.Album{}
	raw := pairs(c, "raw_wh")
	for i, s := range pairs(c, "shown_wh") {
		if i < len(raw) {
			a.Sized(raw[i][0], raw[i][1], s[0], s[1], nil)
		} else {
			a.Sized(s[0], s[1], s[0], s[1], &tools.Op{Kind: "crop"})
		}
	}
	size := func(w, h int) (int, int, error) {
		return vlm.Transformers.Size(w, h, 28, vlm.Pixels{Min: c.Int("min_pixels"), Max: c.Int("max_pixels")})
	}
	reply := tools.PixelReasoner(size).Step(&tools.State{Album: a}, c.String("text"))
	c.Put("wants_tool", reply.End == "")
	if reply.End != "" {
		return
	}
	if r := reply.Refusal; r != nil {
		c.Put("kind", "error", "error_kind", raisedAs(r), "error", r.Message)
		c.Put("observation", "\nExecution error:\n"+r.Message+"\n")
		return
	}
	result := reply.Results[0]
	c.Put("kind", "crop", "name", result.Name, "resized_wh", []int{result.Ops[0].ToWidth, result.Ops[0].ToHeight})
	c.Put("observation", result.Text)
	putOps(c, reply, func(i int) any {
		if i < len(raw) {
			return fmt.Sprintf("raw_%d", i)
		}
		return fmt.Sprintf("shown_%d", i)
	})
}

func toolSelectFrames(c *Case) {
	frames, err := tools.SelectedFrames(written(c, "target_frames"), c.Int("frames"))
	c.Put("kind", "frames", "frames", frames)
	var r *tools.Refusal
	if errors.As(err, &r) {
		c.Put("kind", "error", "error_kind", r.Raised, "error", orNull(r.Message, r.Raised == "AssertionError"))
	}
}

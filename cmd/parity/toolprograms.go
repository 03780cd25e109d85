package main

import (
	"errors"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// The protocol in which a model writes programs, with an interpreter that answers as recorded.

var toolProgramOps = map[string]Op{"vlm.tool_pyvision": toolPyVision}

// recordedProgram is an interpreter that answers as recorded.
type recordedProgram struct{ result map[string]any }

func (p recordedProgram) Run(string) (tools.Execution, error) {
	var e tools.Execution
	if p.result == nil {
		return e, errors.New("the interpreter is gone")
	}
	if p.result["status"] != "success" {
		text, ok := p.result["error"].(string)
		if !ok {
			text = "Unknown error"
		}
		return tools.Execution{Failed: true, Error: text}, nil
	}
	done, _ := p.result["result"].(map[string]any)
	text, ok := done["text"].(string)
	e.Text, e.Silent = text, !ok
	figures, _ := done["total_figures"].(float64)
	e.Figures = int(figures)
	drawn, _ := done["images"].([]any)
	for range drawn {
		e.Drawn = append(e.Drawn, vision.New(1, 1))
	}
	return e, nil
}

func toolPyVision(c *Case) {
	text := c.String("text")
	code, ok := tools.PythonCode(text)
	c.Put("code", orNull(code, ok), "answer", inTags(text))
	program := recordedProgram{}
	if c.Has("result") {
		program.result, _ = c.Raw("result").(map[string]any)
	}
	s := &tools.State{Album: album([2]int{1, 1}), Program: program, Figures: 1}
	reply := tools.PyVision(c.Float("turn_reward")).Step(s, text)
	c.Put("done", reply.End != "", "turn_reward", reply.Reward, "text", reply.Text)
	switch r := reply.Refusal; {
	case reply.End != "":
		c.Put("kind", "end", "info", map[string]any{"final_answer": reply.Answer})
	case r != nil:
		c.Put("kind", "text")
		why := r.Raised
		if why == "raised" {
			why = r.Message
		}
		c.Put("info", map[string]any{"error": why})
	default:
		c.Put("kind", "text", "info", map[string]any{"status": "success"})
		if reply.Pictures > 0 {
			c.Put("kind", "images", "images", reply.Pictures)
			c.Put("parts", tools.PyVisionParts(reply.Results[0].Text, s.Figures, reply.Pictures))
			c.Put("next_figure", reply.Results[0].Figures)
		}
	}
}

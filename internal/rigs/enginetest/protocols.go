package enginetest

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// read decodes a request's fields.
func read(body map[string]json.RawMessage, into map[string]any) error {
	for name, to := range into {
		if raw, ok := body[name]; ok {
			if err := json.Unmarshal(raw, to); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// sampling has the settings that both protocols name alike.
type sampling struct {
	Temperature float64            `json:"temperature"`
	Stop        []int32            `json:"stop_token_ids"`
	Bias        map[string]float64 `json:"logit_bias"`
	MaxTokens   int                `json:"max_tokens"`
	MaxNew      int                `json:"max_new_tokens"`
	Prompt      *int               `json:"prompt_logprobs"`
}

func (p sampling) asking() (a asking, err error) {
	if len(p.Stop) != 1 || p.Temperature <= 0 || p.MaxTokens+p.MaxNew < 1 {
		return a, errors.New("sampling parameters without an end, a temperature or a limit")
	}
	return asking{most: p.MaxTokens + p.MaxNew, temperature: p.Temperature, end: p.Stop[0], banned: p.Bias}, nil
}

// sglang answers POST /generate.
func (s *Server) sglang(k *chat.VLM, body map[string]json.RawMessage) (any, error) {
	var p sampling
	var short []int32
	var addresses []string
	var start int
	var fault string
	if err := read(body, map[string]any{"sampling_params": &p, "input_ids": &short, "image_data": &addresses, "logprob_start_len": &start, "fault": &fault}); err != nil {
		return nil, err
	}
	a, err := p.asking()
	if err != nil {
		return nil, err
	}
	a.fault, a.score = fault, start == 0
	if a.pictures, err = pictures(addresses); err != nil {
		return nil, err
	}
	if fault == "dropped pictures" { // they are left out, with their places
		a.pictures, short = nil, slices.DeleteFunc(short, func(id int32) bool { return id == k.Marks.Picture })
	}
	seen, err := k.Patches(a.pictures)
	if err != nil {
		return nil, err
	}
	if a.ids, _, err = k.Marks.Expand(short, seen.Grids, nil, k.Processor.Merge); err != nil {
		return nil, err
	}
	d, err := s.draw(k, a)
	if err != nil {
		return nil, err
	}
	rows := func(ids []int32, logs []float64) (out [][]any) {
		for i, lp := range logs {
			row := []any{lp, ids[i], nil}
			if math.IsNaN(lp) {
				row[0] = nil
			}
			out = append(out, row)
		}
		return out
	}
	if fault == "no log-probabilities" {
		d.logs[0] = math.NaN()
	}
	version := "default"
	if fault == "another version" {
		version = "default-2"
	}
	meta := map[string]any{"prompt_tokens": d.read, "weight_version": version, "finish_reason": map[string]any{"type": finish(d)}, "output_token_logprobs": rows(d.ids, d.logs)}
	if start == 0 {
		meta["input_token_logprobs"] = rows(d.asked, d.prompt)
	}
	return map[string]any{"text": "", "meta_info": meta}, nil
}

func finish(d drawn) string {
	if d.cut {
		return "length"
	}
	return "stop"
}

// render answers POST /v1/chat/completions/render of a message with one picture.
func (s *Server) render(k *chat.VLM, body map[string]json.RawMessage) (any, error) {
	var messages []struct {
		Content []struct {
			Image struct {
				URL string `json:"url"`
			} `json:"image_url"`
		} `json:"content"`
	}
	var fault string
	if err := read(body, map[string]any{"messages": &messages, "fault": &fault}); err != nil {
		return nil, err
	}
	if fault == "dropped pictures" {
		return map[string]any{"token_ids": []int{1}, "features": nil}, nil
	}
	shown, err := pictures([]string{messages[0].Content[0].Image.URL})
	if err != nil {
		return nil, err
	}
	p, err := k.Patches(shown)
	if err != nil {
		return nil, err
	}
	data, err := encoded(shown[0])
	if err != nil {
		return nil, err
	}
	length := p.Grids[0].Tokens(k.Processor.Merge)
	if fault == "another processor" {
		length++
	}
	type object = map[string]any
	return object{"token_ids": []int{1}, "features": object{"mm_hashes": object{"image": []string{fmt.Sprintf("%x", sha256.Sum256([]byte(data)))}},
		"mm_placeholders": object{"image": []object{{"offset": 1, "length": length}}}, "kwargs_data": object{"image": []string{data}}}}, nil
}

// vllm answers POST /inference/v1/generate.
func (s *Server) vllm(k *chat.VLM, body map[string]json.RawMessage) (any, error) {
	var p sampling
	var ids []int32
	var f struct {
		Places map[string][]struct{ Offset, Length int } `json:"mm_placeholders"`
		Data   map[string][]string                       `json:"kwargs_data"`
	}
	var fault, model string
	if err := read(body, map[string]any{"sampling_params": &p, "token_ids": &ids, "features": &f, "fault": &fault, "model": &model}); err != nil {
		return nil, err
	}
	a, err := p.asking()
	if err != nil {
		return nil, err
	}
	a.fault, a.ids, a.score = fault, ids, p.Prompt != nil
	if a.pictures, err = pictures(f.Data["image"]); err != nil {
		return nil, err
	}
	if err := placed(k, ids, f.Places["image"], a); err != nil {
		return nil, err
	}
	d, err := s.draw(k, a)
	if err != nil {
		return nil, err
	}
	switch fault {
	case "no log-probabilities":
		d.logs = d.logs[1:]
	case "fewer scores":
		for i := range d.prompt[:max(0, len(d.prompt)-2)] {
			d.prompt[i] = math.NaN()
		}
	}
	type object = map[string]any
	var content []object
	for i, lp := range d.logs {
		content = append(content, object{"token": fmt.Sprintf("token_id:%d", d.ids[i]), "logprob": lp})
	}
	var prompt []object
	for i, lp := range d.prompt {
		if prompt = append(prompt, nil); !math.IsNaN(lp) {
			prompt[i] = object{strconv.Itoa(int(d.asked[i])): object{"logprob": lp}}
		}
	}
	return object{"model": model, "usage": object{"prompt_tokens": d.read}, "prompt_logprobs": prompt,
		"choices": []object{{"index": 0, "token_ids": d.ids, "finish_reason": finish(d), "logprobs": object{"content": content}}}}, nil
}

// placed holds places to the tokens: a picture's begin where they are said to, and are as many.
func placed(k *chat.VLM, ids []int32, places []struct{ Offset, Length int }, a asking) error {
	seen, err := k.Patches(a.pictures)
	if err != nil {
		return err
	}
	if len(places) != len(a.pictures) {
		return fmt.Errorf("%d places of %d pictures", len(places), len(a.pictures))
	}
	marks := 0
	for _, id := range ids {
		if id == k.Marks.Picture {
			marks++
		}
	}
	for i, p := range places {
		var g vlm.Grid = seen.Grids[i]
		if p.Length != g.Tokens(k.Processor.Merge) || p.Offset+p.Length > len(ids) {
			return fmt.Errorf("picture %d has %d places from %d on", i+1, p.Length, p.Offset)
		}
		for _, id := range ids[p.Offset : p.Offset+p.Length] {
			if id != k.Marks.Picture {
				return fmt.Errorf("a place of picture %d is token %d", i+1, id)
			}
			marks--
		}
	}
	if marks != 0 {
		return fmt.Errorf("%d marks of pictures have no picture", marks)
	}
	return nil
}

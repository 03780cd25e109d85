package engine

import (
	"context"
	"encoding/json"
	"math"
)

// Card: SGLang (sglang/srt/managers/io_struct.py, GenerateReqInput, 2026). Tokens in and out:
//
//	POST /generate  {input_ids, image_data, sampling_params, return_logprob, logprob_start_len, lora_path}
//	    {meta_info: {prompt_tokens, weight_version, finish_reason: {type}, output_token_logprobs: [[lp, id, text], ...],
//	     input_token_logprobs: [[null, id, text], ...]}}
//
// input_ids have one place a picture, which the engine's processor widens. Some versions make a text of ids that come
// with pictures, and tokenise it anew. So the number of tokens that it read is held against ours with every answer, and
// the tokens themselves before the first roll. Its log-probabilities are at the temperature of the draw.

type sglang struct{ e *Engine }

func (s *sglang) forget() {}

func (s *sglang) generate(ctx context.Context, q Request) (a Completion, err error) {
	body := map[string]any{"input_ids": q.Short, "return_logprob": true, "stream": false, "logprob_start_len": -1,
		"sampling_params": map[string]any{"max_new_tokens": q.Most, "temperature": q.Temperature, "top_p": 1, "top_k": -1, "min_p": 0, "repetition_penalty": 1,
			"stop_token_ids": []int32{q.End}, "logit_bias": q.bias(), "skip_special_tokens": false, "no_stop_trim": true}}
	if q.Score {
		body["logprob_start_len"] = 0
	}
	if q.Adapter != "" {
		body["lora_path"] = q.Adapter
	}
	var pictures []string
	for _, p := range q.Pictures {
		address, err := p.address()
		if err != nil {
			return a, err
		}
		pictures = append(pictures, address)
	}
	if pictures != nil {
		body["image_data"] = pictures
	}
	var r struct {
		Meta *struct {
			Prompt  *int            `json:"prompt_tokens"`
			Version string          `json:"weight_version"`
			Finish  json.RawMessage `json:"finish_reason"`
			Out     [][]any         `json:"output_token_logprobs"`
			In      [][]any         `json:"input_token_logprobs"`
		} `json:"meta_info"`
	}
	if err := s.e.post(ctx, "/generate", body, &r); err != nil {
		return a, err
	}
	if r.Meta == nil {
		return a, Refuse(Unreadable, "an answer without meta_info")
	}
	var finish struct{ Type, Message string }
	if err := json.Unmarshal(r.Meta.Finish, &finish); err != nil {
		return a, Refuse(Unreadable, "a finish_reason of %s", r.Meta.Finish)
	}
	if finish.Type == "abort" {
		return a, Refuse(Unreadable, "it was aborted: %s", finish.Message)
	}
	a.Cut, a.Version, a.read = finish.Type == "length", r.Meta.Version, -1
	if r.Meta.Prompt != nil {
		a.read = *r.Meta.Prompt
	}
	if a.LogProbs, a.IDs, err = pairs(r.Meta.Out); err != nil {
		return a, err
	}
	a.Scores, a.ScoreIDs, err = pairs(r.Meta.In)
	return a, err
}

// pairs are rows of log-probability, token and text.
func pairs(rows [][]any) (logs []float64, ids []int32, err error) {
	for _, row := range rows {
		if len(row) < 2 {
			return nil, nil, Refuse(Unreadable, "a token with %d numbers, where its log-probability and its id are", len(row))
		}
		id, ok := row[1].(float64)
		if !ok || id != math.Trunc(id) || math.Abs(id) > math.MaxInt32 {
			return nil, nil, Refuse(WrongIDs, "a token is %v", row[1])
		}
		lp, ok := row[0].(float64)
		if !ok {
			lp = math.NaN()
		}
		logs, ids = append(logs, lp), append(ids, int32(id))
	}
	return logs, ids, nil
}

func (s *sglang) load(ctx context.Context, name, dir string) error {
	return s.change(ctx, "/load_lora_adapter", map[string]string{"lora_name": name, "lora_path": dir})
}

func (s *sglang) unload(ctx context.Context, name string) error {
	return s.change(ctx, "/unload_lora_adapter", map[string]string{"lora_name": name})
}

// change asks for other adapters.
func (s *sglang) change(ctx context.Context, path string, body map[string]string) error {
	var r struct {
		Success bool   `json:"success"`
		Message string `json:"error_message"`
	}
	if err := s.e.post(ctx, path, body, &r); err != nil {
		return err
	}
	if !r.Success {
		return Refuse(Unreadable, "%s: %s", path, r.Message)
	}
	return nil
}

package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
)

// Card: vLLM (vllm/entrypoints/serve/disagg and render, 2026). Tokens in and out:
//
//	POST /inference/v1/generate  {model, token_ids, features, sampling_params}
//	    {model, usage: {prompt_tokens}, choices: [{token_ids, logprobs: {content: [{logprob}]}, finish_reason}],
//	     prompt_logprobs: [null, {"17": {logprob}}, ...]}
//
// token_ids have all of a picture's places. features are the pictures as the engine's own processor cuts them up,
// with hashes and places. They come from the engine: a message with one picture is rendered once, and its part for
// the picture is put at our places.
//
//	POST /v1/chat/completions/render  {model, messages}
//	    {token_ids, features: {mm_hashes: {image: [h]}, mm_placeholders: {image: [{offset, length}]},
//	     kwargs_data: {image: [text]}}}
//
// So no text is tokenised there. A picture that takes another number of places there is refused before anything is
// drawn. Adapters come by POST /v1/load_lora_adapter (VLLM_ALLOW_RUNTIME_LORA_UPDATING=True), and are asked for as
// models of their names. Log-probabilities must be those that are drawn from: --logprobs-mode processed_logprobs.

type vllm struct {
	e    *Engine
	one  sync.Mutex
	seen map[string]*feature // by the picture's hash
}

// feature is a picture as the engine has it.
type feature struct {
	once       sync.Once
	err        error
	hash, data string
	places     int
}

type placed struct {
	Offset int `json:"offset"`
	Length int `json:"length"`
}

type features struct {
	Hashes map[string][]string `json:"mm_hashes"`
	Places map[string][]placed `json:"mm_placeholders"`
	Data   map[string][]string `json:"kwargs_data"`
}

func (v *vllm) forget() {
	v.one.Lock()
	defer v.one.Unlock()
	clear(v.seen)
}

// look is a picture's feature, rendered once.
func (v *vllm) look(ctx context.Context, p Picture) (*feature, error) {
	v.one.Lock()
	f := v.seen[p.Hash]
	if f == nil {
		f = &feature{}
		v.seen[p.Hash] = f
	}
	v.one.Unlock()
	f.once.Do(func() { f.err = v.render(ctx, p, f) })
	if f.err != nil {
		v.one.Lock()
		delete(v.seen, p.Hash)
		v.one.Unlock()
	}
	return f, f.err
}

func (v *vllm) render(ctx context.Context, p Picture, f *feature) error {
	address, err := p.address()
	if err != nil {
		return err
	}
	type object = map[string]any
	picture := object{"type": "image_url", "image_url": object{"url": address}}
	var r struct {
		Features *features `json:"features"`
	}
	if err := v.e.post(ctx, "/v1/chat/completions/render", object{"model": v.e.Model, "messages": []object{{"role": "user", "content": []object{picture}}}}, &r); err != nil {
		return err
	}
	if r.Features == nil || len(r.Features.Hashes["image"]) != 1 || len(r.Features.Places["image"]) != 1 || len(r.Features.Data["image"]) != 1 {
		return Refuse(LostPictures, "a message with one picture has none when it is rendered")
	}
	f.hash, f.places, f.data = r.Features.Hashes["image"][0], r.Features.Places["image"][0].Length, r.Features.Data["image"][0]
	if f.places != p.Places {
		return Refuse(LostPictures, "a picture of %d x %d takes %d places there and %d here: its processor has other sizes (preprocessor_config.json, --mm-processor-kwargs)", p.Image.Width, p.Image.Height, f.places, p.Places)
	}
	return nil
}

// features are those of a request, at its places.
func (v *vllm) features(ctx context.Context, q Request) (*features, error) {
	if len(q.Pictures) == 0 {
		return nil, nil
	}
	all := &features{Hashes: map[string][]string{}, Places: map[string][]placed{}, Data: map[string][]string{}}
	at := 0
	for i, p := range q.Pictures {
		f, err := v.look(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("picture %d: %w", i+1, err)
		}
		for at < len(q.IDs) && q.IDs[at] != q.Place {
			at++
		}
		all.Hashes["image"] = append(all.Hashes["image"], f.hash)
		all.Places["image"] = append(all.Places["image"], placed{at, f.places})
		all.Data["image"] = append(all.Data["image"], f.data)
		at += f.places
	}
	return all, nil
}

func (v *vllm) generate(ctx context.Context, q Request) (a Completion, err error) {
	model := q.Adapter
	if model == "" {
		model = v.e.Model
	}
	sampling := map[string]any{"max_tokens": q.Most, "temperature": q.Temperature, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1, "logprobs": 1,
		"stop_token_ids": []int32{q.End}, "logit_bias": q.bias(), "detokenize": false}
	if q.Score {
		sampling["prompt_logprobs"] = 1
	}
	body := map[string]any{"model": model, "token_ids": q.IDs, "sampling_params": sampling, "stream": false}
	f, err := v.features(ctx, q)
	if err != nil {
		return a, err
	}
	if f != nil {
		body["features"] = f
	}
	type scored struct {
		LogProb *float64 `json:"logprob"`
	}
	var r struct {
		Model string `json:"model"`
		Usage *struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"usage"`
		Choices []struct {
			IDs      []int32 `json:"token_ids"`
			LogProbs *struct {
				Content []scored `json:"content"`
			} `json:"logprobs"`
			Finish string `json:"finish_reason"`
		} `json:"choices"`
		Prompt []map[string]scored `json:"prompt_logprobs"`
	}
	if err := v.e.post(ctx, "/inference/v1/generate", body, &r); err != nil {
		return a, err
	}
	if len(r.Choices) != 1 {
		return a, Refuse(Unreadable, "%d choices, where one was asked for", len(r.Choices))
	}
	c := r.Choices[0]
	a.IDs, a.Cut, a.adapter, a.read = c.IDs, c.Finish == "length", r.Model, -1
	if r.Usage != nil {
		a.read = r.Usage.Prompt
	}
	if c.LogProbs != nil {
		for _, s := range c.LogProbs.Content {
			a.LogProbs = append(a.LogProbs, number(s.LogProb))
		}
	}
	for i, row := range r.Prompt {
		score, id := math.NaN(), int32(-1)
		if i < len(q.IDs) && len(row) > 0 {
			own, ok := row[strconv.Itoa(int(q.IDs[i]))]
			if ok {
				score, id = number(own.LogProb), q.IDs[i]
			} else if id, err = someID(row); err != nil {
				return a, err
			}
		}
		a.Scores, a.ScoreIDs = append(a.Scores, score), append(a.ScoreIDs, id)
	}
	return a, nil
}

// someID is one of the tokens that a row of scores is of.
func someID[V any](row map[string]V) (int32, error) {
	var all []int
	for name := range row {
		id, err := strconv.Atoi(name)
		if err != nil {
			return 0, Refuse(Unreadable, "a token is called %q", name)
		}
		all = append(all, id)
	}
	return int32(slices.Min(all)), nil
}

// number is a log-probability, NaN without one.
func number(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}

func (v *vllm) load(ctx context.Context, name, dir string) error {
	return v.e.post(ctx, "/v1/load_lora_adapter", map[string]string{"lora_name": name, "lora_path": dir}, nil)
}

func (v *vllm) unload(ctx context.Context, name string) error {
	return v.e.post(ctx, "/v1/unload_lora_adapter", map[string]string{"lora_name": name}, nil)
}

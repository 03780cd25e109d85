package judge

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/vision"
)

// likely is how many of the likeliest first tokens a server is asked for: the most that OpenAI's API has.
const likely = 20

// Chances are the probabilities that a server's answer begins with each of the given tokens. One that is not among the
// likeliest has 0; where none is, nothing is known.
func (c Chat) Chances(ctx context.Context, pictures []*vision.Image, text string, answers []string) (chances []float64, err error) {
	asking := c
	asking.Extra = maps.Clone(c.Extra)
	if asking.Extra == nil {
		asking.Extra = map[string]any{}
	}
	maps.Copy(asking.Extra, map[string]any{"logprobs": true, "top_logprobs": likely, "max_tokens": 1, "temperature": 0})
	body, err := asking.Body(pictures, text)
	if err != nil {
		return nil, err
	}
	err = c.Caller.Do(ctx, append([]byte(c.Endpoint()+"\n"), body...), func(ctx context.Context) ([]byte, error) {
		return c.Caller.Post(ctx, c.Endpoint(), c.header(), body)
	}, func(reply []byte) (whole bool, err error) {
		chances, err = firstTokens(reply, answers)
		return true, err
	})
	if err != nil {
		return nil, fmt.Errorf("asking the judge %s: %w", c.Model, err)
	}
	return chances, nil
}

// header has the key.
func (c Chat) header() http.Header {
	h := http.Header{}
	if c.Key != "" {
		h.Set("Authorization", "Bearer "+c.Key)
	}
	return h
}

// firstTokens are the probabilities that a completion says of its first token.
func firstTokens(reply []byte, answers []string) ([]float64, error) {
	var r struct {
		Choices []struct {
			LogProbs struct {
				Content []struct {
					Top []struct {
						Token   string  `json:"token"`
						LogProb float64 `json:"logprob"`
					} `json:"top_logprobs"`
				} `json:"content"`
			} `json:"logprobs"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(reply, &r); err != nil {
		return nil, fmt.Errorf("the reply is no chat completion (%w): %s", err, call.Shown(reply))
	}
	if len(r.Choices) == 0 || len(r.Choices[0].LogProbs.Content) == 0 {
		return nil, fmt.Errorf("the reply does not say how likely its first token was (logprobs): %s", call.Shown(reply))
	}
	chances, known := make([]float64, len(answers)), false
	for _, t := range r.Choices[0].LogProbs.Content[0].Top {
		for i, a := range answers {
			if t.Token == a {
				chances[i], known = portable.Exp(min(0, t.LogProb)), true
			}
		}
	}
	if !known {
		return nil, fmt.Errorf("none of %q is among the %d likeliest first tokens: %s", answers, likely, call.Shown(reply))
	}
	return chances, nil
}

package judge

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/jpeg"
)

// A Chat is a model behind an OpenAI-compatible API (POST URL/v1/chat/completions): one message
// of the user, pictures first, then the text; before it that of the system.
type Chat struct {
	URL    string // "http://localhost:8000"; with or without /v1
	Model  string
	System string         // the message of the system, if any
	Key    string         // sent as a bearer token, and written nowhere
	Extra  map[string]any // fields of the request: "temperature", "max_tokens" ...
	Send   Encoding
	Caller *call.Caller
}

// An Encoding is how pictures are sent.
type Encoding struct {
	PNG  bool   // else JPEG of quality 95
	Kind string // of the data: URL, "image/jpeg"
	Side int    // pictures are stretched to Side x Side (bicubic); 0: as they are
}

// FlowGRPO is the judge of flow_grpo's unifiedreward_score_sglang.
func FlowGRPO(url string, c *call.Caller) Chat {
	return Chat{URL: url, Model: "UnifiedReward-7b-v1.5", Extra: map[string]any{"temperature": 0}, Send: Encoding{PNG: true, Kind: "image", Side: 512}, Caller: c}
}

// PrefGRPO is Pref-GRPO's judge (vllm_utils/vllm_request.py).
func PrefGRPO(url string, c *call.Caller) Chat {
	return Chat{URL: url, Model: "UnifiedReward", Extra: map[string]any{"do_sample": false, "max_tokens": 4096}, Send: Encoding{Kind: "image/jpeg"}, Caller: c}
}

// PrefPolicy is how Pref-GRPO calls it.
func PrefPolicy() call.Policy {
	return call.Policy{Timeout: 65 * time.Second, Longer: 5 * time.Second, Tries: 10, Pause: 2 * time.Second, Longest: 10 * time.Second, AtOnce: 16}
}

// Body is the request's body.
func (c Chat) Body(pictures []*vision.Image, text string) ([]byte, error) {
	content := []any{}
	for i, m := range pictures {
		url, err := c.Send.dataURL(m)
		if err != nil {
			return nil, fmt.Errorf("picture %d for the judge: %w", i+1, err)
		}
		content = append(content, map[string]any{"type": "image_url", "image_url": map[string]any{"url": url}})
	}
	content = append(content, map[string]any{"type": "text", "text": text})
	messages := []any{map[string]any{"role": "user", "content": content}}
	if c.System != "" {
		messages = append([]any{map[string]any{"role": "system", "content": c.System}}, messages...)
	}
	body := map[string]any{"model": c.Model, "messages": messages}
	maps.Copy(body, c.Extra)
	return json.Marshal(body)
}

func (e Encoding) dataURL(m *vision.Image) (string, error) {
	if m == nil {
		return "", errors.New("there is none")
	}
	var err error
	if e.Side > 0 {
		if m, err = m.Resize(e.Side, e.Side, vision.Bicubic); err != nil {
			return "", err
		}
	}
	var file []byte
	if e.PNG {
		var b bytes.Buffer
		err = vision.EncodePNG(&b, m)
		file = b.Bytes()
	} else {
		file, err = jpeg.Encode(m.Pix, m.Width, m.Height, 95)
	}
	if err != nil {
		return "", err
	}
	return "data:" + e.Kind + ";base64," + base64.StdEncoding.EncodeToString(file), nil
}

// Endpoint is the URL that is asked.
func (c Chat) Endpoint() string {
	return strings.TrimSuffix(strings.TrimRight(c.URL, "/"), "/v1") + "/v1/chat/completions"
}

// Complete implements Completer.
func (c Chat) Complete(ctx context.Context, pictures []*vision.Image, text string) (string, error) {
	body, err := c.Body(pictures, text)
	if err != nil {
		return "", err
	}
	said := ""
	err = c.Caller.Do(ctx, append([]byte(c.Endpoint()+"\n"), body...), func(ctx context.Context) ([]byte, error) {
		return c.Caller.Post(ctx, c.Endpoint(), c.header(), body)
	}, func(reply []byte) (whole bool, err error) {
		said, err = ReplyText(reply)
		return true, err
	})
	if err != nil {
		return "", fmt.Errorf("asking the judge %s: %w", c.Model, err)
	}
	return said, nil
}

// ReplyText is the text of a completion.
func ReplyText(reply []byte) (string, error) {
	var r struct {
		Choices []struct {
			Message struct {
				Content *string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(reply, &r); err != nil {
		return "", fmt.Errorf("the reply is no chat completion (%w): %s", err, call.Shown(reply))
	}
	if len(r.Choices) == 0 || r.Choices[0].Message.Content == nil {
		return "", fmt.Errorf("the reply holds no message: %s", call.Shown(reply))
	}
	return *r.Choices[0].Message.Content, nil
}

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

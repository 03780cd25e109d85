package chat

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// Card: tokens that a vocabulary is given anew (model.new_tokens), as people add the marks of tool calls to a model
// that has never called a tool. The folder's rows of them are replaced:
//
//	row of a token = normal · rms of the matrix      in the embeddings, and in the head where it has a matrix of its own
//
// Invariants (tests): the rows of other tokens keep their bits; the draw is a function of the run's seed.

// InitTokens draws the rows of tokens.
func (s *VLM) InitTokens(names []string, key rng.Key) error {
	if len(names) == 0 {
		return nil
	}
	ids, err := TokenIDs(s.Tokens, names)
	if err != nil {
		return fmt.Errorf("model.new_tokens: %w", err)
	}
	matrices, err := tokenMatrices(s.Params)
	if err != nil {
		return fmt.Errorf("model.new_tokens: %w", err)
	}
	for _, name := range matrices {
		of := key.With(rng.Purpose("new tokens " + name))
		if err := s.Params.Set(name, func(x []float32) { InitRows(x, ids, len(x)/s.Model.Text.Vocabulary, of) }); err != nil {
			return fmt.Errorf("model.new_tokens: %w", err)
		}
	}
	return nil
}

// tokenMatrices are the names of the parameters that have a row a token. They must be trained.
func tokenMatrices(params *nn.Params) (names []string, err error) {
	for _, p := range params.All() {
		if !strings.HasSuffix(p.Name, "embed_tokens.weight") && !strings.HasSuffix(p.Name, "lm_head.weight") {
			continue
		}
		if !p.Trained {
			return nil, fmt.Errorf("%s is not trained\nhint: rows that begin as random numbers are trained: train = \"full\", or patterns that hold %s", p.Name, p.Name)
		}
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return nil, errors.New("no parameter of the model ends in embed_tokens.weight")
	}
	return names, nil
}

// InitRows draws rows of a matrix that is so wide.
func InitRows(x []float32, rows []int32, width int, key rng.Key) {
	sum := 0.0
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	scale := float32(math.Sqrt(sum / float64(len(x))))
	for i, row := range rows {
		at := x[int(row)*width : (int(row)+1)*width]
		key.Sample(i).Normal(at, 0)
		for k := range at {
			at[k] *= scale
		}
	}
}

// TokenIDs are the numbers of tokens by their texts.
func TokenIDs(t *tokenizer.Tokenizer, names []string) (ids []int32, err error) {
	for _, name := range names {
		id, ok := t.ID(name)
		if !ok {
			return nil, fmt.Errorf("the tokenizer has no token %q\nhint: add it to tokenizer.json first, as a text that is one token", name)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

package conversations

import (
	"fmt"
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// Card: tokens that a vocabulary is given anew (model.new_tokens), as people add the marks of tool calls to a model that
// has never called a tool. What the folder knows of them is drawn over:
//
//	row of a token = normal · rms of the matrix      in the embeddings, and in the head where it has a matrix of its own
//
// Invariants (tests): the rows of other tokens keep their bits; the draw is a function of the run's seed.

// newRows draws the rows of tokens.
func (s *Speaker) newRows(names []string, key rng.Key) error {
	ids, err := tokensNamed(s.Tokens, names)
	if err != nil || len(ids) == 0 {
		return err
	}
	found := false
	for _, p := range s.Params.All() {
		if !strings.HasSuffix(p.Name, "embed_tokens.weight") && !strings.HasSuffix(p.Name, "lm_head.weight") {
			continue
		}
		found = true
		of := key.With(rng.Purpose("new tokens " + p.Name))
		if err := s.Params.Set(p.Name, func(x []float32) { drawRows(x, ids, len(x)/s.Model.Text.Vocabulary, of) }); err != nil {
			return fmt.Errorf("model.new_tokens: %w\nhint: rows that begin as random numbers are trained: train = \"full\", or patterns that hold %s", err, p.Name)
		}
	}
	if !found {
		return fmt.Errorf("model.new_tokens: no parameter of the model ends in embed_tokens.weight")
	}
	return nil
}

// drawRows draws rows of a matrix that is so wide.
func drawRows(x []float32, rows []int32, width int, key rng.Key) {
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

// tokensNamed are the numbers of tokens by their texts.
func tokensNamed(t *tokenizer.Tokenizer, names []string) (ids []int32, err error) {
	for _, name := range names {
		id, ok := t.ID(name)
		if !ok {
			return nil, fmt.Errorf("model.new_tokens: the tokenizer has no token %q\nhint: add it to tokenizer.json first, as a text that is one token", name)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

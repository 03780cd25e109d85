package vlm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Card: a folder that answers questions about pictures: a judge. A question is one message of the user, pictures
// first, in the folder's own template; the answer has the likeliest tokens, one by one, so that the same question
// always has the same answer. Chances are the probabilities of given answers, as VQAScore (arXiv 2404.01291) scores
// by that of "Yes".

// Answerer may be asked from any goroutine: questions wait for each other.
type Answerer struct {
	*Folder
	Side   int    // pictures are stretched to a square of this side; 0: as they are
	Most   int    // tokens of an answer
	System string // the message of the system, if any
	device *features.Device
}

// OpenAnswerer reads a folder for a device; template names the form of conversations where the
// folder does not say it.
func OpenAnswerer(dir string, device *features.Device, template string) (*Answerer, error) {
	c, err := ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	a := &Answerer{Folder: &Folder{options: Options{Template: template}}, Most: 1024, device: device}
	if err := a.settings(dir, c); err != nil {
		return nil, err
	}
	if a.weights, err = quant.OpenFolder(dir); err != nil {
		return nil, err
	}
	a.Params, err = device.Load(Today(a.weights), func(p *nn.Params) { a.Model = newFrom(p, c) })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), a.weights.Close())
	}
	return a, nil
}

// Close gives memory and files back.
func (a *Answerer) Close() error {
	a.device.Free(a.Params)
	return a.weights.Close()
}

// ErrTooLong is the error of an answer that does not end.
var ErrTooLong = errors.New("the answer does not end")

// Complete implements judge.Completer: the answer to a question about pictures.
func (a *Answerer) Complete(ctx context.Context, pictures []*vision.Image, text string) (string, error) {
	question, err := a.question(pictures, text)
	if err != nil {
		return "", err
	}
	var said []int32
	a.device.Run(false, func(tp *autograd.Tape) { said, err = a.answer(ctx, tp, question) })
	if err != nil {
		return "", fmt.Errorf("asking the judge: %w", err)
	}
	return a.Tokens.DecodePlain(said), nil
}

func (a *Answerer) answer(ctx context.Context, tp *autograd.Tape, question Stretch) ([]int32, error) {
	d := a.NewDecoder(tp.Pool(), tp.Options, 1)
	defer d.Close()
	if err := d.Read([]int{0}, []Stretch{question}); err != nil {
		return nil, err
	}
	var said []int32
	for len(said) < a.Most {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		drawn, err := d.Draw(Sampling{Banned: a.Config.Banned()})
		if err != nil {
			return nil, err
		}
		if drawn[0].Err != nil {
			return nil, drawn[0].Err
		}
		next := drawn[0].ID
		if slices.Contains(a.Generation.Ends, next) {
			return said, nil
		}
		said = append(said, next)
		if err := d.Next([]int{0}, []int32{next}); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w within %d tokens", ErrTooLong, a.Most)
}

// Chances are the probabilities that the folder's answer begins with each of the given ones.
func (a *Answerer) Chances(ctx context.Context, pictures []*vision.Image, text string, answers []string) ([]float64, error) {
	question, err := a.question(pictures, text)
	if err != nil {
		return nil, err
	}
	said, single := make([][]int32, len(answers)), []int32{}
	for i, answer := range answers {
		e, err := a.Tokens.Encode(answer)
		if err != nil {
			return nil, err
		}
		if said[i] = e.IDs; len(e.IDs) == 1 {
			single = append(single, e.IDs[0])
		}
	}
	chances := make([]float64, len(answers))
	a.device.Run(false, func(tp *autograd.Tape) {
		if len(single) == len(answers) { // all are behind the same token
			chances, err = a.firsts(tp, question, single)
		}
		for i := 0; i < len(answers) && err == nil && len(single) < len(answers); i++ {
			if err = ctx.Err(); err == nil {
				chances[i], err = a.chance(tp, question, said[i])
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("asking the judge: %w", err)
	}
	return chances, nil
}

// firsts are the probabilities of single tokens behind a question, which is read once.
func (a *Answerer) firsts(tp *autograd.Tape, question Stretch, tokens []int32) ([]float64, error) {
	defer tp.Reset()
	hidden, err := a.Hidden(tp, question)
	if err != nil {
		return nil, err
	}
	rows := make([]int32, len(tokens))
	for i := range rows {
		rows[i] = int32(len(question.IDs) - 1)
	}
	chances := make([]float64, len(tokens))
	for i, lp := range a.LogProbs(tp, hidden, rows, tokens, 1).F32() {
		chances[i] = portable.Exp(float64(lp))
	}
	return chances, nil
}

// chance is the probability of an answer's tokens behind a question, read at once.
func (a *Answerer) chance(tp *autograd.Tape, question Stretch, answer []int32) (float64, error) {
	if len(answer) == 0 {
		return 0, fmt.Errorf("an answer without tokens")
	}
	defer tp.Reset()
	first := len(question.IDs) - 1
	rows := make([]int32, len(answer))
	for i := range rows {
		rows[i] = int32(first + i)
	}
	question.IDs = slices.Concat(question.IDs, answer[:len(answer)-1]) // the last is not read
	hidden, err := a.Hidden(tp, question)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, lp := range a.LogProbs(tp, hidden, rows, answer, 1).F32() {
		sum += float64(lp)
	}
	return portable.Exp(sum), nil
}

func (a *Answerer) question(pictures []*vision.Image, text string) (Stretch, error) {
	m := Message{Role: "user"}
	var rasters []*vision.Raster
	for i, p := range pictures {
		if p == nil {
			return Stretch{}, fmt.Errorf("picture %d for the judge: there is none", i+1)
		}
		if a.Side > 0 {
			var err error
			if p, err = p.Resize(a.Side, a.Side, vision.Bicubic); err != nil {
				return Stretch{}, fmt.Errorf("picture %d for the judge: %w", i+1, err)
			}
		}
		rasters = append(rasters, p.Raster())
		m.Content = append(m.Content, Part{Kind: PicturePart})
	}
	m.Content = append(m.Content, Part{Text: text})
	messages := []Message{m}
	if a.System != "" {
		messages = []Message{{Role: "system", Content: []Part{{Text: a.System}}}, m}
	}
	written, err := a.Template.Render(messages, Rendering{Generate: true})
	if err != nil {
		return Stretch{}, err
	}
	return a.Read(written, rasters...)
}

package ppocr

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/onnx"
)

// Card: PP-OCR (PaddlePaddle), three networks. The picture, blue first, goes to the detector with sides of a multiple
// of 32; each box becomes a line's picture, which the classifier may turn by half; lines are read in batches of six
// by rising width over height, 48 pixels high, as wide as the widest of the batch, zeros at the right. Pixels are
// (x/255 - 1/2)/(1/2). Held to eyes.db_boxes and the others around it.

// Rules are the numbers around the networks.
type Rules struct {
	Boxes
	Limit   int  // of the detector's sides
	Longest bool // the longer side is at most Limit; else the shorter one at least
	Bounds  bool // sides from 30 to 2000, and black rows above and below of wide pictures
	Turn    bool // lines that are upside down, by the classifier
	Least   float64
}

// Rapid are rapidocr's rules.
func Rapid() Rules {
	return Rules{Boxes: Boxes{Threshold: 0.3, Score: 0.5, Most: 1000, Unclip: 1.6, Dilate: true}, Limit: 736, Bounds: true, Turn: true, Least: 0.5}
}

// Paddle are PaddleOCR's rules, by which flow_grpo reads: no classifier.
func Paddle() Rules {
	return Rules{Boxes: Boxes{Threshold: 0.3, Score: 0.6, Most: 1000, Unclip: 1.5}, Limit: 960, Longest: true, Least: 0.5}
}

// A Line is a text that was read.
type Line struct {
	Text  string
	Score float64
	Box   Quad
}

// A Reader is the three networks.
type Reader struct {
	Rules
	// Watch, if set, is called with the input and the output of each run: of "det", "cls" or "rec".
	Watch func(network string, in, out *onnx.Tensor)

	detector, classifier, recogniser *onnx.Model
	characters                       []string
}

// Open finds the networks in a folder, or in the folders in it, by their names: det, rec and cls, which may be
// missing. Characters are those that the recogniser's file has, or the lines of a .txt file beside it.
func Open(folder string, rules Rules, o onnx.Options) (*Reader, error) {
	r := &Reader{Rules: rules}
	var texts []string
	models := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		name := strings.ToLower(inside)
		switch {
		case d.IsDir() && strings.Count(inside, string(filepath.Separator)) > 1:
			return fs.SkipDir
		case strings.HasSuffix(name, ".txt"):
			texts = append(texts, path)
		case strings.HasSuffix(name, ".onnx"):
			for _, part := range []string{"det", "cls", "rec"} {
				if !strings.Contains(name, part) {
					continue
				}
				if other := models[part]; other != "" {
					return fmt.Errorf("%s: two networks are named %s: %s and %s", folder, part, filepath.Base(other), filepath.Base(path))
				}
				models[part] = path
				break
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for part, to := range map[string]**onnx.Model{"det": &r.detector, "cls": &r.classifier, "rec": &r.recogniser} {
		if models[part] == "" {
			if part != "cls" {
				return nil, fmt.Errorf("%s: no .onnx file there is named %s\nhint: the detector's name has det in it, the recogniser's rec, the classifier's cls", folder, part)
			}
			continue
		}
		if *to, err = onnx.Open(models[part], o); err != nil {
			return nil, err
		}
	}
	text := r.recogniser.Metadata()["character"]
	if text == "" && len(texts) == 1 {
		data, err := os.ReadFile(texts[0])
		if err != nil {
			return nil, err
		}
		text = string(data)
	}
	if text == "" {
		return nil, fmt.Errorf("%s: its metadata have no characters, and %d .txt files lie beside it\nhint: put the dictionary beside it, a character a line", models["rec"], len(texts))
	}
	r.characters = strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	return r, nil
}

// Characters are the recogniser's, from class 1 on; the class behind them is a space.
func (r *Reader) Characters() []string { return r.characters }

// Read is the lines of a picture in reading order.
func (r *Reader) Read(ctx context.Context, m *vision.Image) ([]Line, error) {
	page, scaleX, scaleY, top, err := r.page(m)
	if err != nil {
		return nil, err
	}
	boxes, err := r.detect(ctx, page)
	if err != nil {
		return nil, fmt.Errorf("detector: %w", err)
	}
	var lines []Line
	var crops []*vision.Image
	for _, b := range boxes {
		if c := Crop(page, b); c != nil {
			for i, p := range b {
				b[i] = Point{min(max(float64(p.X*scaleX), 0), float64(m.Width)), min(max(float64((p.Y-float64(top))*scaleY), 0), float64(m.Height))}
			}
			crops, lines = append(crops, c), append(lines, Line{Box: b})
		}
	}
	if r.Turn && r.classifier != nil {
		if err := r.turn(ctx, crops); err != nil {
			return nil, fmt.Errorf("classifier: %w", err)
		}
	}
	if err := r.recognise(ctx, crops, lines); err != nil {
		return nil, fmt.Errorf("recogniser: %w", err)
	}
	return slices.DeleteFunc(lines, func(l Line) bool { return l.Score < r.Least || l.Text == "" && r.Least > 0 }), nil
}

// Fitted are the sides of a picture within bounds, and the black rows above it.
func Fitted(width, height int) (w, h, top int) {
	w, h = width, height
	scale := func(f float64) {
		w, h = int(math.RoundToEven(float64(int(float64(w)*f))/32)*32), int(math.RoundToEven(float64(int(float64(h)*f))/32)*32)
	}
	if max(w, h) > 2000 {
		scale(2000 / float64(max(w, h)))
	}
	if min(w, h) < 30 && min(w, h) > 0 {
		scale(30 / float64(min(w, h)))
	}
	if h <= 30 || h > 0 && float64(w)/float64(h) > 8 {
		d := 2*max(w/8, 30) - h
		top = max(d, -d) / 2
	}
	return w, h, top
}

// page is the picture within bounds, with black rows above and below where it is wide.
func (r *Reader) page(m *vision.Image) (page *vision.Image, scaleX, scaleY float64, top int, err error) {
	if !r.Bounds {
		return m, 1, 1, 0, nil
	}
	w, h, top := Fitted(m.Width, m.Height)
	page = m
	if w != m.Width || h != m.Height {
		if page, err = m.ResizeOpenCV(w, h); err != nil {
			return nil, 0, 0, 0, err
		}
	}
	if top > 0 {
		whole := vision.New(w, h+2*top)
		whole.Paste(page, 0, top)
		page = whole
	}
	return page, float64(m.Width) / float64(w), float64(m.Height) / float64(h), top, nil
}

// Sides are the detector's input of a picture.
func (r Rules) Sides(width, height int) (w, h int) {
	ratio := 1.0
	if r.Longest && max(width, height) > r.Limit {
		ratio = float64(r.Limit) / float64(max(width, height))
	}
	if !r.Longest && min(width, height) < r.Limit {
		ratio = float64(r.Limit) / float64(min(width, height))
	}
	side := func(n int) int { return int(math.RoundToEven(float64(int(float64(n)*ratio))/32) * 32) }
	return side(width), side(height)
}

// pixels writes a picture, blue first, into one of a batch, from the left.
func pixels(to []float32, m *vision.Image, width int) {
	n := width * m.Height
	for c := range 3 {
		for y := range m.Height {
			for x := range m.Width {
				to[c*n+y*width+x] = (float32(m.Pix[3*(y*m.Width+x)+2-c])/255 - 0.5) / 0.5
			}
		}
	}
}

// run is a network's only output.
func (r *Reader) run(ctx context.Context, name string, m *onnx.Model, x *onnx.Tensor, axes int) (*onnx.Tensor, error) {
	if len(m.Inputs()) != 1 || len(m.Outputs()) != 1 {
		return nil, fmt.Errorf("it has inputs %v and outputs %v; one each is needed", m.Inputs(), m.Outputs())
	}
	out, err := m.Run(ctx, map[string]*onnx.Tensor{m.Inputs()[0].Name: x})
	if err != nil {
		return nil, err
	}
	t := out[m.Outputs()[0].Name]
	if t.Type != onnx.Float || len(t.Shape) != axes || t.Shape[0] != x.Shape[0] {
		return nil, fmt.Errorf("its output is %v", t)
	}
	if r.Watch != nil {
		r.Watch(name, x, t)
	}
	return t, nil
}

// detect is the boxes of a page in reading order.
func (r *Reader) detect(ctx context.Context, page *vision.Image) ([]Quad, error) {
	w, h := r.Sides(page.Width, page.Height)
	if w == 0 || h == 0 {
		return nil, nil
	}
	small, err := page.ResizeOpenCV(w, h)
	if err != nil {
		return nil, err
	}
	x := make([]float32, 3*w*h)
	pixels(x, small, w)
	out, err := r.run(ctx, "det", r.detector, onnx.Floats(x, 1, 3, h, w), 4)
	if err != nil {
		return nil, err
	}
	if out.Shape[1] != 1 {
		return nil, fmt.Errorf("its output is %v; a map has one channel", out)
	}
	var boxes []Quad
	for _, f := range r.Of(out.F, out.Shape[3], out.Shape[2], page.Width, page.Height) {
		boxes = append(boxes, f.Box)
	}
	return InOrder(boxes), nil
}

// atOnce is how many lines a network reads at once.
const atOnce = 6

// byWidth are the places of lines by rising width over height.
func byWidth(crops []*vision.Image) []int {
	order := make([]int, len(crops))
	for i := range order {
		order[i] = i
	}
	ratio := func(i int) float64 { return float64(crops[i].Width) / float64(crops[i].Height) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ratio(a), ratio(b)) })
	return order
}

// lineHeight is the height of a line's picture.
const lineHeight = 48

// Batch is lines of the networks' height as one input of a width, zeros at the right.
func Batch(lines []*vision.Image, width int) *onnx.Tensor {
	x := make([]float32, len(lines)*3*lineHeight*width)
	for k, m := range lines {
		pixels(x[k*3*lineHeight*width:(k+1)*3*lineHeight*width], m, width)
	}
	return onnx.Floats(x, len(lines), 3, lineHeight, width)
}

// batch is some crops as one input of a width.
func batch(crops []*vision.Image, places []int, width int) (*onnx.Tensor, error) {
	var lines []*vision.Image
	for _, i := range places {
		m := crops[i]
		w := min(width, max(1, int(math.Ceil(lineHeight*(float64(m.Width)/float64(m.Height))))))
		small, err := m.ResizeOpenCV(w, lineHeight)
		if err != nil {
			return nil, err
		}
		lines = append(lines, small)
	}
	return Batch(lines, width), nil
}

// turn turns lines that are upside down.
func (r *Reader) turn(ctx context.Context, crops []*vision.Image) error {
	for places := range slices.Chunk(byWidth(crops), atOnce) {
		x, err := batch(crops, places, 192)
		if err != nil {
			return err
		}
		out, err := r.run(ctx, "cls", r.classifier, x, 2)
		if err != nil {
			return err
		}
		if out.Shape[1] != 2 {
			return fmt.Errorf("its output is %v; two classes are needed", out)
		}
		for k, i := range places {
			if out.F[2*k+1] > 0.9 && out.F[2*k+1] > out.F[2*k] {
				crops[i] = upsideDown(crops[i])
			}
		}
	}
	return nil
}

// recognise reads the lines.
func (r *Reader) recognise(ctx context.Context, crops []*vision.Image, lines []Line) error {
	for places := range slices.Chunk(byWidth(crops), atOnce) {
		widest := 320.0 / lineHeight
		for _, i := range places {
			widest = max(widest, float64(crops[i].Width)/float64(crops[i].Height))
		}
		x, err := batch(crops, places, min(int(lineHeight*widest), 1<<15))
		if err != nil {
			return err
		}
		out, err := r.run(ctx, "rec", r.recogniser, x, 3)
		if err != nil {
			return err
		}
		steps, classes := out.Shape[1], out.Shape[2]
		if classes > len(r.characters)+2 || classes < 2 {
			return fmt.Errorf("it has %d classes, and there are %d characters", classes, len(r.characters))
		}
		for k, i := range places {
			ids, top := make([]int, steps), make([]float32, steps)
			for s := range steps {
				row := out.F[(k*steps+s)*classes:][:classes]
				for j, v := range row {
					if v > row[ids[s]] {
						ids[s] = j
					}
				}
				top[s] = row[ids[s]]
			}
			lines[i].Text, lines[i].Score = Decode(ids, top, r.characters)
		}
	}
	return nil
}

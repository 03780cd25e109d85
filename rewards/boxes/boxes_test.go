package boxes

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(b)) }

func random(r *rand.Rand) Box {
	x, y := r.Float64()*80, r.Float64()*80
	return Box{x, y, x + 2 + r.Float64()*40, y + 2 + r.Float64()*40}
}

func TestOverlaps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		a, b := random(r), random(r)
		iou, giou, diou, ciou := IoU(a, b), GIoU(a, b), DIoU(a, b), CIoU(a, b)
		if iou < 0 || iou > 1 || giou > iou || giou < -1 || diou > iou || ciou > diou {
			t.Errorf("%v, %v: %v %v %v %v", a, b, iou, giou, diou, ciou)
		}
		moved := func(b Box) Box { return Box{3*b[0] + 7, 3*b[1] - 2, 3*b[2] + 7, 3*b[3] - 2} }
		for name, f := range map[string]func(a, b Box) float64{"IoU": IoU, "GIoU": GIoU, "DIoU": DIoU, "CIoU": CIoU} {
			if !near(f(a, b), f(b, a)) || math.Abs(f(a, b)-f(moved(a), moved(b))) > 1e-6 || math.Abs(f(a, a)-1) > 1e-9 {
				t.Errorf("%s of %v and %v: %v, turned round %v, moved %v, with itself %v", name, a, b, f(a, b), f(b, a), f(moved(a), moved(b)), f(a, a))
			}
		}
	}
	for _, c := range []struct {
		a, b      Box
		iou, giou float64
	}{
		{Box{0, 0, 10, 10}, Box{10, 0, 20, 10}, 0, 0},
		{Box{0, 0, 10, 10}, Box{5, 0, 15, 10}, 1. / 3, 1. / 3},
		{Box{0, 0, 1, 1}, Box{9, 0, 10, 1}, 0, -0.8},
		{Box{5, 5, 5, 5}, Box{5, 5, 5, 5}, 0, 0},
	} {
		if iou, giou := IoU(c.a, c.b), GIoU(c.a, c.b); !near(iou, c.iou) || !near(giou, c.giou) {
			t.Errorf("%v, %v: %v and %v, want %v and %v", c.a, c.b, iou, giou, c.iou, c.giou)
		}
	}
}

func TestConvert(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		b := random(r)
		for _, form := range Forms {
			there, err := Convert(b, "xyxy", form)
			if err != nil {
				t.Fatal(err)
			}
			back, err := Convert(there, form, "xyxy")
			for i := range b {
				if err != nil || !near(back[i], b[i]) {
					t.Errorf("%v became %v by way of %s, %v", b, back, form, err)
				}
			}
		}
	}
	for _, c := range [][2]string{{"xyxy", "polar"}, {"polar", "xyxy"}, {"polar", "polar"}} {
		if b, err := Convert(Box{}, c[0], c[1]); err == nil {
			t.Errorf("%s became %s: %v", c[0], c[1], b)
		}
	}
}

func TestSuppress(t *testing.T) {
	boxes := []Box{{0, 0, 10, 10}, {1, 0, 11, 10}, {20, 0, 30, 10}, {0, 0, 10, 10}}
	if got := Suppress(boxes, []float64{0.5, 0.9, 0.1, 0.5}, 0.5); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("kept %v", got)
	}
	// At the threshold itself a box stays.
	if got := Suppress(boxes, []float64{0.5, 0.9, 0.1, 0.5}, IoU(boxes[0], boxes[1])); !slices.Equal(got, []int{1, 0, 2}) {
		t.Errorf("kept %v", got)
	}
}

// best tries every assignment.
func best(score [][]float64, maximise bool) float64 {
	rows, columns := len(score), len(score[0])
	most := math.Inf(-1)
	var try func(row int, used []bool, chosen int, sum float64)
	try = func(row int, used []bool, chosen int, sum float64) {
		if chosen == min(rows, columns) {
			most = max(most, sum)
			return
		}
		if row == rows {
			return
		}
		try(row+1, used, chosen, sum)
		for j := range used {
			if !used[j] {
				used[j] = true
				v := score[row][j]
				if !maximise {
					v = -v
				}
				try(row+1, used, chosen+1, sum+v)
				used[j] = false
			}
		}
	}
	try(0, make([]bool, columns), 0, 0)
	if !maximise {
		most = -most
	}
	return most
}

func TestAssign(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		score := make([][]float64, 1+r.IntN(5))
		m := 1 + r.IntN(5)
		for i := range score {
			for range m {
				score[i] = append(score[i], math.Round(r.Float64()*8-4)) // with ties
			}
		}
		for _, maximise := range []bool{true, false} {
			rows, columns, err := Assign(score, maximise)
			sum := 0.0
			for k, i := range rows {
				sum += score[i][columns[k]]
			}
			seen := slices.Clone(columns)
			slices.Sort(seen)
			if err != nil || len(rows) != min(len(score), m) || !slices.IsSorted(rows) || len(slices.Compact(seen)) != len(rows) || sum != best(score, maximise) {
				t.Errorf("%v, %v: rows %v, columns %v, sum %v of %v, %v", score, maximise, rows, columns, sum, best(score, maximise), err)
			}
		}
	}
	// Where all are equal, the diagonal.
	if rows, columns, _ := Assign([][]float64{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, true); !slices.Equal(rows, columns) {
		t.Errorf("%v, %v", rows, columns)
	}
	for name, score := range map[string][][]float64{"NaN": {{math.NaN()}}, "infinite": {{1, math.Inf(1)}}, "torn": {{1, 2}, {3}}} {
		if rows, _, err := Assign(score, true); err == nil {
			t.Errorf("%s: %v", name, rows)
		}
	}
	if rows, columns, err := Assign(nil, true); rows != nil || columns != nil || err != nil {
		t.Error(rows, columns, err)
	}
}

func TestMatch(t *testing.T) {
	dog, cat := Labelled{Box{0, 0, 10, 10}, "dog"}, Labelled{Box{20, 20, 30, 30}, "cat"}
	far := Labelled{Box{60, 60, 70, 70}, "dog"}
	for _, c := range []struct {
		name        string
		m           Matching
		found, want []Labelled
		reward      float64
	}{
		{"as asked for", Matching{}, []Labelled{cat, dog}, []Labelled{dog, cat}, 1},
		{"one missing", Matching{}, []Labelled{dog}, []Labelled{dog, cat}, 0.5},
		{"one too many", Matching{}, []Labelled{dog, cat, far}, []Labelled{dog, cat}, 2. / 3},
		{"one too many, for nothing", Matching{DivideBy: "want"}, []Labelled{dog, cat, far}, []Labelled{dog, cat}, 1},
		{"one missing, for nothing", Matching{DivideBy: "pred"}, []Labelled{dog}, []Labelled{dog, cat}, 1},
		{"another thing there", Matching{}, []Labelled{{dog.Box, "cat"}}, []Labelled{dog}, 0},
		{"far off", Matching{}, []Labelled{far}, []Labelled{dog}, 0},
		{"nothing and nothing", Matching{}, nil, nil, 1},
		{"nothing found", Matching{}, nil, []Labelled{dog}, 0},
	} {
		got, _, err := c.m.Match(c.found, c.want)
		if err != nil || !near(got, c.reward) {
			t.Errorf("%s: %v, want %v, %v", c.name, got, c.reward, err)
		}
		slices.Reverse(c.found)
		if again, _, err := c.m.Match(c.found, c.want); err != nil || !near(again, got) {
			t.Errorf("%s: the other way round %v, %v", c.name, again, err)
		}
	}
	// These say how far; a threshold drops boxes that hardly overlap. Another shape costs by CIoU alone, and never
	// below 0.
	for _, score := range []string{"giou", "diou", "ciou"} {
		if got, _, _ := (Matching{Score: score}).Match([]Labelled{far}, []Labelled{dog}); !(got > 0 && got < 0.2) {
			t.Errorf("far off by %s: %v", score, got)
		}
	}
	thin := Labelled{Box{4, 0, 6, 10}, "dog"}
	diou, _, _ := (Matching{Score: "diou"}).Match([]Labelled{thin}, []Labelled{dog})
	ciou, _, _ := (Matching{Score: "ciou"}).Match([]Labelled{thin}, []Labelled{dog})
	if !near(diou, (1+IoU(thin.Box, dog.Box))/2) || !(ciou < diou) {
		t.Errorf("a thin box in the middle: %v by DIoU, %v by CIoU", diou, ciou)
	}
	if got := (Matching{Score: "ciou"}).worth(Box{0, 0, 1, 1000}, Box{9e5, 0, 9e5 + 1000, 1}); got < 0 {
		t.Errorf("far off and another shape by CIoU: %v", got)
	}
	if got, pairs, _ := (Matching{Threshold: 0.9}).Match([]Labelled{{Box{1, 0, 11, 10}, "dog"}}, []Labelled{dog}); got != 0 || pairs != nil {
		t.Errorf("below the threshold: %v, %v", got, pairs)
	}
	if _, _, err := (Matching{DivideBy: "luck"}).Match([]Labelled{dog}, []Labelled{dog}); err == nil {
		t.Error("divided by luck")
	}
}

func TestAveragePrecision(t *testing.T) {
	truth := []Truth{{Rect: Rect{0, 0, 50, 50}}, {Rect: Rect{100, 100, 200, 200}}, {Rect: Rect{10, 10, 20, 20}, Image: 1, Class: 1}}
	var found []Found
	for i, g := range truth {
		found = append(found, Found{g.Rect, g.Image, g.Class, 0.9 - float64(i)/10})
	}
	p := AveragePrecision(truth, found, 3)
	if !near(p.AP, 1) || !near(p.APSmall, 1) || !near(p.APLarge, 1) || !near(p.AR100, 1) || p.PerClass[2] != -1 || p.AR1 >= 1 {
		t.Errorf("the truth: %+v", p)
	}
	if p := AveragePrecision(truth, nil, 2); p.AP != 0 || p.AR100 != 0 {
		t.Errorf("nothing found: %+v", p)
	}
	if p := AveragePrecision(nil, found, 2); p.AP != -1 || p.AR100 != -1 {
		t.Errorf("nothing there: %+v", p)
	}
	// A false box above a right one halves the precision, below it it costs nothing.
	wrong := Found{Rect{300, 300, 40, 40}, 0, 0, 0.95}
	one := truth[:1]
	if p := AveragePrecision(one, []Found{found[0], wrong}, 1); !near(p.AP, 0.5) {
		t.Errorf("a false box first: %+v", p)
	}
	wrong.Score = 0.1
	if p := AveragePrecision(one, []Found{found[0], wrong}, 1); !near(p.AP, 1) {
		t.Errorf("a false box last: %+v", p)
	}
	// A box in a crowd counts neither way.
	crowd := []Truth{truth[0], {Rect: Rect{300, 300, 100, 100}, Crowd: true}}
	wrong.Score = 0.95
	if p := AveragePrecision(crowd, []Found{found[0], wrong}, 1); !near(p.AP, 1) {
		t.Errorf("a box in a crowd: %+v", p)
	}
}

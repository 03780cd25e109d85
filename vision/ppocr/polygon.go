package ppocr

import (
	"cmp"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// A Point is a place in a picture.
type Point struct{ X, Y float64 }

// A Quad is four corners.
type Quad [4]Point

// hull is the convex hull of points, counterclockwise where y points up.
func hull(points []Point) []Point {
	points = slices.Clone(points)
	slices.SortFunc(points, func(a, b Point) int { return cmp.Or(cmp.Compare(a.X, b.X), cmp.Compare(a.Y, b.Y)) })
	points = slices.Compact(points)
	if len(points) < 3 {
		return points
	}
	chain := func(next func(i int) Point) (out []Point) {
		for i := range points {
			p := next(i)
			for len(out) > 1 && cross(out[len(out)-2], out[len(out)-1], p) <= 0 {
				out = out[:len(out)-1]
			}
			out = append(out, p)
		}
		return out[:len(out)-1]
	}
	lower := chain(func(i int) Point { return points[i] })
	upper := chain(func(i int) Point { return points[len(points)-1-i] })
	return append(lower, upper...)
}

func cross(o, a, b Point) float64 {
	return float64((a.X-o.X)*(b.Y-o.Y)) - float64((a.Y-o.Y)*(b.X-o.X))
}

// smallest is the smallest rectangle around points, its corners from the upper left clockwise, and its shorter side.
func smallest(points []Point) (Quad, float64) {
	h := hull(points)
	best, side, least := Quad{}, 0.0, math.Inf(1)
	for i, p := range h {
		q := h[(i+1)%len(h)]
		length := portable.Hypot(q.X-p.X, q.Y-p.Y)
		if length == 0 {
			if len(h) == 1 {
				return Quad{p, p, p, p}, 0
			}
			continue
		}
		ux, uy := (q.X-p.X)/length, (q.Y-p.Y)/length
		lowU, highU, lowV, highV := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
		for _, r := range h {
			u, v := float64((r.X-p.X)*ux)+float64((r.Y-p.Y)*uy), float64((r.Y-p.Y)*ux)-float64((r.X-p.X)*uy)
			lowU, highU, lowV, highV = min(lowU, u), max(highU, u), min(lowV, v), max(highV, v)
		}
		if area := (highU - lowU) * (highV - lowV); area < least {
			least, side = area, min(highU-lowU, highV-lowV)
			at := func(u, v float64) Point {
				return Point{p.X + float64(u*ux) - float64(v*uy), p.Y + float64(u*uy) + float64(v*ux)}
			}
			best = Quad{at(lowU, lowV), at(highU, lowV), at(highU, highV), at(lowU, highV)}
		}
	}
	return ordered(best), side
}

// ordered puts corners as PaddleOCR does: of the two at the left the upper one first, then clockwise.
func ordered(q Quad) Quad {
	p := q[:]
	slices.SortStableFunc(p, func(a, b Point) int { return cmp.Compare(float32(a.X), float32(b.X)) })
	tl, bl, tr, br := p[0], p[1], p[2], p[3]
	if p[1].Y <= p[0].Y {
		tl, bl = p[1], p[0]
	}
	if p[3].Y <= p[2].Y {
		tr, br = p[3], p[2]
	}
	return Quad{tl, tr, br, bl}
}

// area is the shoelace formula's, and around the length of the outline.
func (q Quad) area() (area, around float64) {
	for i, p := range q {
		r := q[(i+1)%4]
		area += float64(p.X*r.Y) - float64(r.X*p.Y)
		around += portable.Hypot(r.X-p.X, r.Y-p.Y)
	}
	return math.Abs(area) / 2, around
}

// grown is a convex polygon of whole coordinates grown by a distance with round corners, as Clipper does it: in steps
// that stay within a quarter of a pixel of the arc, rounded to whole coordinates.
func grown(q Quad, distance float64) []Point {
	var path []Point
	for _, p := range q {
		p = Point{math.Trunc(p.X), math.Trunc(p.Y)}
		if len(path) == 0 || path[len(path)-1] != p {
			path = append(path, p)
		}
	}
	if len(path) > 1 && path[0] == path[len(path)-1] {
		path = path[:len(path)-1]
	}
	if len(path) < 3 || distance <= 0 {
		return nil
	}
	signed := 0.0
	for i, p := range path {
		r := path[(i+1)%len(path)]
		signed += float64(p.X*r.Y) - float64(r.X*p.Y)
	}
	if signed < 0 {
		slices.Reverse(path)
	}
	tolerance := 1 - min(0.25, distance*0.25)/distance
	steps := min(math.Pi/portable.Atan2(math.Sqrt((1-tolerance)*(1+tolerance)), tolerance), distance*math.Pi)
	sin, cos := portable.Sin(2*math.Pi/steps), portable.Cos(2*math.Pi/steps)
	normals := make([]Point, len(path))
	for i, p := range path {
		r := path[(i+1)%len(path)]
		length := portable.Hypot(r.X-p.X, r.Y-p.Y)
		normals[i] = Point{(r.Y - p.Y) / length, -(r.X - p.X) / length}
	}
	var out []Point
	add := func(p Point, nx, ny float64) {
		whole := func(v float64) float64 { return math.Trunc(v + math.Copysign(0.5, v)) }
		out = append(out, Point{whole(p.X + float64(nx*distance)), whole(p.Y + float64(ny*distance))})
	}
	for i, p := range path {
		before, n := normals[(i+len(path)-1)%len(path)], normals[i]
		turn := float64(before.X*n.Y) - float64(n.X*before.Y)
		along := float64(before.X*n.X) + float64(before.Y*n.Y)
		if math.Abs(turn*distance) < 1 && along > 0 {
			add(p, before.X, before.Y)
			continue
		}
		turn = min(max(turn, -1), 1)
		if turn*distance < 0 {
			add(p, before.X, before.Y)
			out = append(out, p)
			add(p, n.X, n.Y)
			continue
		}
		x, y := before.X, before.Y
		for range max(int(math.Trunc(steps/(2*math.Pi)*math.Abs(portable.Atan2(turn, along))+0.5)), 1) {
			add(p, x, y)
			x, y = float64(x*cos)-float64(sin*y), float64(x*sin)+float64(y*cos)
		}
		add(p, n.X, n.Y)
	}
	return out
}

// fill calls f for every pixel of a polygon of whole coordinates, its outline's included, within width and height.
func fill(corners []Point, width, height int, f func(x, y int)) {
	mask := make([]bool, width*height)
	put := func(x, y int) {
		if x >= 0 && x < width && y >= 0 && y < height && !mask[y*width+x] {
			mask[y*width+x] = true
			f(x, y)
		}
	}
	for i, p := range corners {
		q := corners[(i+1)%len(corners)]
		dx, dy := q.X-p.X, q.Y-p.Y
		n := max(math.Abs(dx), math.Abs(dy))
		for k := 0.0; k <= n; k++ {
			t := k / max(n, 1)
			put(int(math.Floor(p.X+float64(t*dx)+0.5)), int(math.Floor(p.Y+float64(t*dy)+0.5)))
		}
	}
	for y := range height {
		var at []float64
		for i, p := range corners {
			q := corners[(i+1)%len(corners)]
			if (p.Y <= float64(y)) != (q.Y <= float64(y)) {
				at = append(at, p.X+float64((float64(y)-p.Y)*(q.X-p.X))/(q.Y-p.Y))
			}
		}
		slices.Sort(at)
		for i := 0; i+1 < len(at); i += 2 {
			for x := max(0, int(math.Ceil(at[i]))); x <= min(width-1, int(math.Floor(at[i+1]))); x++ {
				put(x, y)
			}
		}
	}
}

package ptxtest

// Instructions by which the lanes of a warp meet (9.7.9.6, 9.7.13).

var exchanges = map[string]row{
	"shfl.sync.bfly.b32": {"rprrrr", shuffle(func(lane, b, segment, high uint32) (uint32, bool) {
		return lane ^ b, lane^b <= high
	}), named},
	"shfl.sync.idx.b32": {"rprrrr", shuffle(func(lane, b, segment, high uint32) (uint32, bool) {
		j := lane&segment | b&^segment
		return j, j <= high
	}), named},
	"bar.warp.sync": {"r", func(w *warp, in *instruction, m uint32) {
		if m == w.live {
			w.together()
		}
	}, named},
}

// shuffle reads a lane's value of its segment, and says whether there is such a lane; otherwise a
// lane has its own. A lane that has not come has no value: an error here.
func shuffle(from func(lane, b, segment, high uint32) (uint32, bool)) func(*warp, *instruction, uint32) {
	return func(w *warp, in *instruction, m uint32) {
		d, a, b, c := w.r(in.args[0]), *w.r(in.args[2]), *w.r(in.args[3]), *w.r(in.args[4])
		w.decide(in.args[1], m, func(l int) bool {
			lane, clamp, segment := uint32(l), c[l]&31, c[l]>>8&31
			j, inside := from(lane, b[l]&31, segment, lane&segment|clamp&^segment)
			if !inside {
				j = lane
			}
			if m>>j&1 == 0 {
				fail(l, "the value of lane %d, which is not there", j)
			}
			d[l] = a[j]
			return inside
		})
	}
}

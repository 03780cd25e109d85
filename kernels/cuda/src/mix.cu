// mix.cu: rows with what belongs to their sample (Modulate, Gated), with each other (GLU), and turned (Rope).
#include "activation.h"
#include "row.h"

template <int W> DEV void modulate_by(const MixArgs& a) {
  each_piece<W>(a.x.rows, a.x.cols, [&](i64 r, int c) {
    float x[W], b[W], g[W];
    get(x, a.x, r, c), get(b, a.b, split(r, a.per), c), get(g, a.g, split(r, a.per), c);
    UNROLL for (int e = 0; e < W; e++) x[e] = fma_(x[e], add(1, b[e]), g[e]);
    set(a.y, r, c, x);
  });
}
KERNEL(modulate, MixArgs, 256) {
  if (a.x.cols % 8 == 0 && wide(a.x, a.y, a.b, a.g))
    modulate_by<8>(a);
  else
    modulate_by<1>(a);
}
template <int W> DEV void gate_by(const MixArgs& a) {
  each_piece<W>(a.x.rows, a.x.cols, [&](i64 r, int c) {
    float x[W], b[W], g[W];
    get(x, a.x, r, c), get(g, a.g, split(r, a.per), c), get(b, a.b, r, c);
    UNROLL for (int e = 0; e < W; e++) x[e] = fma_(x[e], g[e], b[e]);
    set(a.y, r, c, x);
  });
}
KERNEL(gate, MixArgs, 256) {
  if (a.x.cols % 8 == 0 && wide(a.x, a.y, a.b, a.g))
    gate_by<8>(a);
  else
    gate_by<1>(a);
}
// The gradient at x alone, of Modulate (op 1) or Gated (op 0).
template <int W> DEV void through(const MixArgs& a) {
  each_piece<W>(a.dy.rows, a.dy.cols, [&](i64 r, int c) {
    float d[W], g[W];
    get(d, a.dy, r, c), get(g, a.op ? a.b : a.g, split(r, a.per), c);
    UNROLL for (int e = 0; e < W; e++) d[e] = mul(d[e], a.op ? add(1, g[e]) : g[e]);
    set(a.dx, r, c, d);
  });
}
KERNEL(mix_through, MixArgs, 256) {
  if (a.dy.cols % 8 == 0 && wide(a.dy, a.dx, a.op ? a.b : a.g))
    through<8>(a);
  else
    through<1>(a);
}
// The gradient at x, and the sums over each sample's rows: the grid's y is the sample.
DEV i64 sample_end(const MixArgs& a, i64 s) { return (s + 1) * a.per < a.dy.rows ? (s + 1) * a.per : a.dy.rows; }
KERNEL(modulate_backward, MixArgs, 128) {
  i64 c = thread_index(), s = blockIdx.y;
  if (c >= a.dy.cols) return;
  float scale = add(1, at(a.b, s, (int)c)), db = 0, dg = 0;
  ahead<16>(s * a.per, sample_end(a, s), [&](i64 r) { return Two{raw(a.x, r, (int)c), raw(a.dy, r, (int)c)}; }, [&](i64 r, const Two& u) {
    float d = value(u.y, a.dy.type);
    dg = add(dg, d);
    db = fma_(d, value(u.x, a.x.type), db);
    if (a.dx.p) put(a.dx, r, (int)c, mul(d, scale));
  });
  if (a.db.p) put(a.db, s, (int)c, db);
  if (a.dg.p) put(a.dg, s, (int)c, dg);
}
KERNEL(gate_backward, MixArgs, 128) {
  i64 c = thread_index(), s = blockIdx.y;
  if (c >= a.dy.cols) return;
  float g = at(a.g, s, (int)c), dg = 0;
  ahead<16>(s * a.per, sample_end(a, s), [&](i64 r) { return Two{raw(a.x, r, (int)c), raw(a.dy, r, (int)c)}; }, [&](i64 r, const Two& u) {
    float d = value(u.y, a.dy.type);
    dg = fma_(d, value(u.x, a.x.type), dg);
    if (a.dx.p) put(a.dx, r, (int)c, mul(d, g));
  });
  if (a.dg.p) put(a.dg, s, (int)c, dg);
}
template <int W> DEV void glu_by(const MixArgs& a) {
  each_piece<W>(a.x.rows, a.x.cols, [&](i64 r, int c) {
    float x[W], g[W];
    get(x, a.x, r, c), get(g, a.g, r, c);
    UNROLL for (int e = 0; e < W; e++) x[e] = mul(x[e], activate(a.op, g[e]));
    set(a.y, r, c, x);
  });
}
KERNEL(glu, MixArgs, 256) {
  if (a.x.cols % 8 == 0 && wide(a.x, a.y, a.g))
    glu_by<8>(a);
  else
    glu_by<1>(a);
}
template <int W> DEV void glu_back(const MixArgs& a) {
  each_piece<W>(a.dy.rows, a.dy.cols, [&](i64 r, int c) {
    float d[W], x[W], g[W], dx[W];
    get(d, a.dy, r, c), get(x, a.x, r, c), get(g, a.g, r, c);
    UNROLL for (int e = 0; e < W; e++) dx[e] = mul(d[e], activate(a.op, g[e])), g[e] = mul(mul(d[e], x[e]), activate_grad(a.op, g[e]));
    if (a.dx.p) set(a.dx, r, c, dx);
    if (a.dg.p) set(a.dg, r, c, g);
  });
}
KERNEL(glu_backward, MixArgs, 256) {
  if (a.dy.cols % 8 == 0 && wide(a.dy, a.x, a.g, a.dx, a.dg))
    glu_back<8>(a);
  else
    glu_back<1>(a);
}

struct RopeArgs { Heads x, y; Mat cos, sin; int halves, inverse; };
// turn rotates W pairs (u, v) by the angles from column i on.
template <int W> DEV void turn(const RopeArgs& a, i64 row, int i, float (&u)[W], float (&v)[W]) {
  float c[W], s[W];
  const float *cos = (const float*)a.cos.p + row * a.cos.stride + i, *sin = (const float*)a.sin.p + row * a.sin.stride + i;
  UNROLL for (int k = 0; k < W; k += 4) {
    Floats4 x = *(const Floats4*)(cos + k), y = *(const Floats4*)(sin + k);
    UNROLL for (int e = 0; e < 4; e++) c[k + e] = flush(x.x[e]), s[k + e] = a.inverse ? -flush(y.x[e]) : flush(y.x[e]);
  }
  UNROLL for (int k = 0; k < W; k++) {
    float x = u[k], y = v[k];
    u[k] = fma_(x, c[k], -mul(y, s[k])), v[k] = fma_(y, c[k], mul(x, s[k]));
  }
}
// In pieces of eight elements: four pairs that lie together, or eight whose halves lie apart.
KERNEL(rope_pieces, RopeArgs, 256) {
  int half = a.cos.cols, turned = a.halves ? half / 8 : half / 4, each = turned + (a.x.d - 2 * half) / 8;
  i64 total = (i64)a.x.b * a.x.s * a.x.h * each;
  for (i64 k = thread_index(); k < total; k += thread_count()) {
    i64 i, h, t, b, s;
    split(k, each, &t, &i), split(t, a.x.h, &t, &h), split(t, a.x.s, &b, &s);
    i64 from = head(a.x, (int)b, (int)s, (int)h), to = head(a.y, (int)b, (int)s, (int)h), row = a.cos.rows > a.x.s ? b * a.x.s + s : s;
    float x[8];
    if (i >= turned) {
      i64 c = 2 * half + (i - turned) * 8;
      get(x, a.x.p, a.x.type, from + c), set(a.y.p, a.y.type, to + c, x);
    } else if (a.halves) {
      float y[8];
      get(x, a.x.p, a.x.type, from + i * 8), get(y, a.x.p, a.x.type, from + half + i * 8);
      turn(a, row, (int)i * 8, x, y);
      set(a.y.p, a.y.type, to + i * 8, x), set(a.y.p, a.y.type, to + half + i * 8, y);
    } else {
      float u[4], v[4];
      get(x, a.x.p, a.x.type, from + i * 8);
      UNROLL for (int e = 0; e < 4; e++) u[e] = x[2 * e], v[e] = x[2 * e + 1];
      turn(a, row, (int)i * 4, u, v);
      UNROLL for (int e = 0; e < 4; e++) x[2 * e] = u[e], x[2 * e + 1] = v[e];
      set(a.y.p, a.y.type, to + i * 8, x);
    }
  }
}
KERNEL(rope, RopeArgs, 256) {  // one thread a pair, and the rest of a head's elements as they are
  int half = a.cos.cols, rest = a.x.d - 2 * half, each = half + rest;
  i64 total = (i64)a.x.b * a.x.s * a.x.h * each;
  for (i64 k = thread_index(); k < total; k += thread_count()) {
    i64 i, h, t, b, s;
    split(k, each, &t, &i), split(t, a.x.h, &t, &h), split(t, a.x.s, &b, &s);
    i64 from = head(a.x, (int)b, (int)s, (int)h), to = head(a.y, (int)b, (int)s, (int)h);
    if (i >= half) {
      i64 c = half + i;
      store(a.y.p, a.y.type, to + c, load(a.x.p, a.x.type, from + c));
      continue;
    }
    i64 row = a.cos.rows > a.x.s ? b * a.x.s + s : s;
    i64 p = a.halves ? i : 2 * i, q = a.halves ? i + half : 2 * i + 1;
    float u = load(a.x.p, a.x.type, from + p), v = load(a.x.p, a.x.type, from + q), c = at(a.cos, row, (int)i), sn = at(a.sin, row, (int)i);
    if (a.inverse) sn = -sn;
    store(a.y.p, a.y.type, to + p, fma_(u, c, -mul(v, sn)));
    store(a.y.p, a.y.type, to + q, fma_(v, c, mul(u, sn)));
  }
}

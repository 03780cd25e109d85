// rows.cu: what normalises, weighs or looks up rows. One warp a row, four rows a block; sums
// follow the tree of ref/sum.go. Gradients over the rows of a sample are one thread a column.
#include "pieces.h"

DEV i64 warp_row() { return (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; }
DEV i64 sample_of(i64 row, i64 per) { return per > 0 ? row / per : 0; }

struct NormArgs {
  Mat x, y;
  Vec weight, bias;
  Mat scale, shift;
  Vec mean, rstd;
  Mat dy, dx;
  Vec dweight, dbias;
  Mat dscale, dshift;
  i64 per;
  float eps, inv;
  int layer, pad;
};
// The parameters of W columns; what is absent is not read.
template <int W> struct Parameters {
  float weight[W] = {}, bias[W] = {}, scale[W] = {}, shift[W] = {};
  MEMBER void read(const NormArgs& a, i64 s, int c) {
    if (a.weight.p) get(weight, a.weight, c);
    if (a.bias.p) get(bias, a.bias, c);
    if (a.scale.p) get(scale, a.scale, s, c);
    if (a.shift.p) get(shift, a.shift, s, c);
  }
  MEMBER float weighted(const NormArgs& a, int e, float n) const {
    if (a.weight.p && a.bias.p) return fma_(n, weight[e], bias[e]);
    if (a.weight.p) return mul(n, weight[e]);
    if (a.bias.p) return add(n, bias[e]);
    return n;
  }
  MEMBER float modulated(const NormArgs& a, int e, float n) const {
    if (a.scale.p && a.shift.p) return fma_(n, add(1, scale[e]), shift[e]);
    if (a.scale.p) return mul(n, add(1, scale[e]));
    if (a.shift.p) return add(n, shift[e]);
    return n;
  }
};
template <int W> DEV void norm_apply(const NormArgs& a, i64 r, float mean, float rstd) {
  i64 s = sample_of(r, a.per);
  for (int c = (threadIdx.x & 31) * W; c < a.x.cols; c += 32 * W) {
    float v[W];
    Parameters<W> p;
    get(v, a.x, r, c);
    p.read(a, s, c);
    UNROLL for (int e = 0; e < W; e++) {
      float n = mul(a.layer ? sub(v[e], mean) : v[e], rstd);
      v[e] = p.modulated(a, e, p.weighted(a, e, n));
    }
    set(a.y, r, c, v);
  }
}
KERNEL(norm, NormArgs, 128) {
  i64 r = warp_row();
  if (r >= a.x.rows) return;
  int cols = a.x.cols, lane = threadIdx.x & 31;
  auto x = [&](int i) { return raw(a.x, r, i); };
  float mean = 0;
  if (a.layer) mean = mul(row_sum(cols, x, [&](uint32_t u, int, float s) { return add(s, value(u, a.x.type)); }), a.inv);
  float square = row_sum(cols, x, [&](uint32_t u, int, float s) {
    float d = value(u, a.x.type);
    if (a.layer) d = sub(d, mean);
    return fma_(d, d, s);
  });
  float rstd = quotient(1, root(add(mul(square, a.inv), a.eps)));
  if (cols % 8 == 0 && wide(a.x, a.y, a.weight, a.bias, a.scale, a.shift))
    norm_apply<8>(a, r, mean, rstd);
  else
    norm_apply<1>(a, r, mean, rstd);
  if (lane == 0 && a.mean.p && a.layer) ((float*)a.mean.p)[r] = mean;
  if (lane == 0 && a.rstd.p) ((float*)a.rstd.p)[r] = rstd;
}

// What the backward reads of an element, and what it makes of it: the normalised element, from the
// forward's statistics, and the gradient at it.
struct Slope { uint32_t x, dy, scale, weight; };
DEV Slope slope_at(const NormArgs& a, i64 s, i64 r, int c) {
  return {raw(a.x, r, c), raw(a.dy, r, c), a.scale.p ? raw(a.scale, s, c) : 0, a.weight.p ? raw(a.weight.p, a.weight.type, c) : 0};
}
DEV float normalised(const NormArgs& a, uint32_t x, float mean, float rstd) {
  float v = value(x, a.x.type);
  return mul(a.layer ? sub(v, mean) : v, rstd);
}
DEV float slope(const NormArgs& a, const Slope& u) {
  float d = value(u.dy, a.dy.type);
  if (a.scale.p) d = mul(d, add(1, value(u.scale, a.scale.type)));
  if (a.weight.p) d = mul(d, value(u.weight, a.weight.type));
  return d;
}
KERNEL(norm_backward, NormArgs, 128) {
  i64 r = warp_row();
  if (r >= a.x.rows) return;
  int cols = a.x.cols;
  i64 s = sample_of(r, a.per);
  float mean = a.layer ? ((const float*)a.mean.p)[r] : 0, rstd = ((const float*)a.rstd.p)[r];
  auto at_column = [&](int c) { return slope_at(a, s, r, c); };
  float c2 = mul(row_sum(cols, at_column, [&](const Slope& u, int, float t) { return fma_(slope(a, u), normalised(a, u.x, mean, rstd), t); }), a.inv), c1 = 0;
  if (a.layer) c1 = mul(row_sum(cols, at_column, [&](const Slope& u, int, float t) { return add(t, slope(a, u)); }), a.inv);
  int lane = threadIdx.x & 31;
  ahead<8>(0, cols > lane ? (cols - lane + 31) / 32 : 0, [&](i64 k) { return slope_at(a, s, r, lane + 32 * (int)k); }, [&](i64 k, const Slope& u) {
    float d = slope(a, u), n = normalised(a, u.x, mean, rstd);
    if (a.layer) d = sub(d, c1);
    put(a.dx, r, lane + 32 * (int)k, mul(fma_(-n, c2, d), rstd));
  });
}
// Sums over the rows of a sample, one thread a column. The grid's y is the sample, for what
// belongs to a sample; or 1, and the samples are added in order, for what belongs to all.
struct Sums { float weight, bias, scale, shift; };
struct Entry { uint32_t x, dy; float mean, rstd; };
DEV Sums column(const NormArgs& a, i64 s, int c) {
  i64 per = a.per > 0 ? a.per : a.x.rows, end = (s + 1) * per < a.x.rows ? (s + 1) * per : a.x.rows;
  Sums t = {0, 0, 0, 0};
  Parameters<1> p;
  p.read(a, s, c);
  ahead<16>(s * per, end, [&](i64 r) -> Entry {
    return {raw(a.x, r, c), raw(a.dy, r, c), a.layer ? ((const float*)a.mean.p)[r] : 0, ((const float*)a.rstd.p)[r]};
  }, [&](i64, const Entry& u) {
    float d = value(u.dy, a.dy.type), n = normalised(a, u.x, u.mean, u.rstd);
    t.shift = add(t.shift, d);
    t.scale = fma_(d, p.weighted(a, 0, n), t.scale);
    if (a.scale.p) d = mul(d, add(1, p.scale[0]));
    t.weight = fma_(d, n, t.weight);
    t.bias = add(t.bias, d);
  });
  return t;
}
KERNEL(norm_backward_modulation, NormArgs, 128) {
  i64 c = thread_index();
  if (c >= a.x.cols) return;
  Sums t = column(a, blockIdx.y, (int)c);
  if (a.dscale.p) put(a.dscale, blockIdx.y, (int)c, t.scale);
  if (a.dshift.p) put(a.dshift, blockIdx.y, (int)c, t.shift);
}
KERNEL(norm_backward_weights, NormArgs, 128) {
  i64 c = thread_index();
  if (c >= a.x.cols) return;
  i64 samples = a.per > 0 ? (a.x.rows + a.per - 1) / a.per : a.x.rows > 0;
  for (i64 s = 0; s < samples; s++) {
    Sums t = column(a, s, (int)c);
    if (a.dweight.p) put(a.dweight, c, add(at(a.dweight, c), t.weight));
    if (a.dbias.p) put(a.dbias, c, add(at(a.dbias, c), t.bias));
  }
}

struct SoftmaxArgs { Mat x, dy, y; };  // backward: x is Y, y is DX
KERNEL(softmax, SoftmaxArgs, 128) {
  i64 r = warp_row();
  if (r >= a.x.rows) return;
  int cols = a.x.cols;
  auto x = [&](int i) { return raw(a.x, r, i); };
  float m = row_largest(cols, x, [&](uint32_t u, int) { return value(u, a.x.type); });
  float sum = row_sum(cols, x, [&](uint32_t u, int, float s) { return add(s, exp_(sub(value(u, a.x.type), m))); });
  float inv = quotient(1, sum);
  for (int c = threadIdx.x & 31; c < cols; c += 32) put(a.y, r, c, mul(exp_(sub(at(a.x, r, c), m)), inv));
}
struct Two { uint32_t x, y; };
KERNEL(softmax_backward, SoftmaxArgs, 128) {
  i64 r = warp_row();
  if (r >= a.x.rows) return;
  int cols = a.x.cols;
  float s = row_sum(cols, [&](int i) { return Two{raw(a.x, r, i), raw(a.dy, r, i)}; },
                    [&](const Two& u, int, float t) { return fma_(value(u.x, a.x.type), value(u.y, a.dy.type), t); });
  for (int c = threadIdx.x & 31; c < cols; c += 32) put(a.y, r, c, mul(at(a.x, r, c), sub(at(a.dy, r, c), s)));
}

struct GatherArgs {
  Mat x, dx;
  const int* index;
  float *out, *lse, *entropy;
  const float* dout;
  float inv;
  int pad;
};
DEV float scaled(const GatherArgs& a, uint32_t u) {
  float z = value(u, a.x.type);
  return a.inv == 1 ? z : mul(z, a.inv);
}
KERNEL(log_softmax_gather, GatherArgs, 128) {
  i64 r = warp_row();
  if (r >= a.x.rows) return;
  int cols = a.x.cols, lane = threadIdx.x & 31;
  auto x = [&](int i) { return raw(a.x, r, i); };
  float m = row_largest(cols, x, [&](uint32_t u, int) { return scaled(a, u); });
  float s = row_sum(cols, x, [&](uint32_t u, int, float t) { return add(t, exp_(sub(scaled(a, u), m))); });
  float lse = add(m, log_(s));
  if (lane == 0 && a.lse) a.lse[r] = lse;
  if (lane == 0 && a.out) {
    int i = a.index[r];
    a.out[r] = i >= 0 ? sub(scaled(a, x(i)), lse) : 0;
  }
  if (!a.entropy) return;
  float h = row_sum(cols, x, [&](uint32_t u, int, float t) {
    float z = scaled(a, u), e = exp_(sub(z, m));
    return fma_(e, e == 0 ? 0 : z, t);
  });
  if (lane == 0) a.entropy[r] = sub(lse, mul(h, quotient(1, s)));
}
KERNEL(log_softmax_gather_backward, GatherArgs, 128) {
  i64 r = warp_row();
  if (r >= a.x.rows) return;
  int cols = a.x.cols, index = a.index[r];
  float d = index < 0 ? 0 : mul(flush(a.dout[r]), a.inv);
  for (int c = threadIdx.x & 31; c < cols; c += 32) {
    float z = 0;
    if (index >= 0) {
      z = mul(-d, exp_(sub(scaled(a, raw(a.x, r, c)), a.lse[r])));
      if (c == index) z = add(d, z);
    }
    put(a.dx, r, c, z);
  }
}

struct EmbeddingArgs { Mat table, y; const int* index; };
template <int W> DEV void look_up(const EmbeddingArgs& a) {
  each_piece<W>(a.y.rows, a.y.cols, [&](i64 r, int c) {
    float v[W];
    get(v, a.table, a.index[r], c);
    set(a.y, r, c, v);
  });
}
KERNEL(embedding, EmbeddingArgs, 256) {
  if (a.y.cols % 8 == 0 && wide(a.y, a.table))
    look_up<8>(a);
  else
    look_up<1>(a);
}
KERNEL(embedding_backward, EmbeddingArgs, 128) {  // y is DY; one thread a column, rows in order
  i64 c = thread_index();
  if (c >= a.y.cols) return;
  for (i64 r = 0; r < a.y.rows; r++) {
    i64 to = a.index[r];
    put(a.table, to, (int)c, add(at(a.table, to, (int)c), at(a.y, r, (int)c)));
  }
}

// Modulate, Gated and GLU. b is the scale, the residual or the gate's half; g the shift or the gate.
struct MixArgs { Mat x, y, b, g, dy, dx, db, dg; i64 per; int op, pad; };
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

// Reductions: a warp a row in float64; columns by a thread each.
struct ReduceArgs { Mat x, y; double* out; int op, pad; };
KERNEL(reduce, ReduceArgs, 128) {
  i64 r = warp_row();
  if (r >= a.x.rows) return;
  int cols = a.x.cols;
  double t;
  if (a.op == 3) {
    // The largest magnitude as bits: a NaN is above every number.
    uint32_t m = 0;
    for (int i = threadIdx.x & 31; i < cols; i += 32) {
      uint32_t v = bits(at(a.x, r, i)) & 0x7fffffffu;
      if (v > m) m = v;
    }
    for (int d = 16; d; d >>= 1) {
      uint32_t v = __shfl_xor_sync(ALL, m, d);
      if (v > m) m = v;
    }
    t = (double)from_bits(m);
  } else
    t = row_sum64(cols, [&](i64 i) { return Two{raw(a.x, r, (int)i), a.op == 2 ? raw(a.y, r, (int)i) : 0}; }, [&](const Two& u, i64) {
      float x = value(u.x, a.x.type);
      return a.op == 0 ? x : mul(x, a.op == 1 ? x : value(u.y, a.y.type));
    });
  if ((threadIdx.x & 31) == 0) a.out[r] = t;
}

struct SumRowsArgs { Mat x; float* out; const i64* segments; i64 count; int accumulate, pad; };
KERNEL(sum_rows, SumRowsArgs, 128) {
  i64 c = thread_index();
  if (c >= a.x.cols) return;
  float out = a.accumulate ? a.out[c] : 0;
  i64 r = 0;
  for (i64 k = 0; k < a.count; k++) {
    float sum = 0;
    i64 end = r + (a.segments ? a.segments[k] : a.x.rows);
    ahead<16>(r, end, [&](i64 r) { return raw(a.x, r, (int)c); }, [&](i64, uint32_t u) { sum = add(sum, value(u, a.x.type)); });
    r = end;
    out = add(out, sum);
  }
  a.out[c] = out;
}

// One row of a solver, a warp a sample. The coefficients of sample s: coef[s*stride] is A, then
// C, then one for each output.
const int OUTPUTS = 12;
struct SolverArgs {
  Mat x, noise, next, mean;
  Mat out[OUTPUTS];
  const float* coef;
  double* square;
  int outputs, given;
};
KERNEL(solver, SolverArgs, 128) {
  i64 s = warp_row();
  if (s >= a.x.rows) return;
  const float* k = a.coef + s * (2 + a.outputs);
  double t = warp_sum64(a.x.cols, [&](i64 i) {
    int c = (int)i;
    float mean = mul(k[0], at(a.x, s, c));
    for (int o = 0; o < a.outputs; o++) mean = fma_(k[2 + o], at(a.out[o], s, c), mean);
    if (a.mean.p) put(a.mean, s, c, mean);
    float next = mean;
    if (a.given)
      next = at(a.next, s, c);
    else if (a.noise.p)
      next = fma_(k[1], at(a.noise, s, c), mean);
    if (!a.given && a.next.p) put(a.next, s, c, next);
    float d = sub(next, mean);
    return mul(d, d);
  });
  if (a.square && (threadIdx.x & 31) == 0) a.square[s] = t;
}

// norm.cu: layer and RMS norm with their modulation, and what leads back. Sums follow the tree of ref/sum.go.
// Gradients over the rows of a sample are one thread a column.
//
// A row comes from memory once. Rows of whole pieces are kept as numbers: short ones (the heads of queries and keys)
// in the registers of eight lanes, longer ones in shared memory, a warp each (row.h). Others are read as often as
// they are added up.
#include "row.h"

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
  int layer, warps;  // warps of a long row: 1, 2 or 4
};
// The parameters of W columns; what is absent is not read.
template <int W> struct Parameters {
  float weight[W] = {}, bias[W] = {}, scale[W] = {}, shift[W] = {};
  MEMBER void read(const NormArgs& a, i64 s, int c) {
    if (a.weight.p) get_as_is(weight, a.weight, c);
    if (a.bias.p) get_as_is(bias, a.bias, c);
    if (a.scale.p) get_as_is(scale, a.scale, s, c);
    if (a.shift.p) get_as_is(shift, a.shift, s, c);
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
// norm_set normalises W elements of row r of sample s, and writes them.
template <int W> DEV void norm_set(const NormArgs& a, i64 s, i64 r, int c, float (&v)[W], float mean, float rstd) {
  Parameters<W> p;
  p.read(a, s, c);
  UNROLL for (int e = 0; e < W; e++) {
    float n = mul(a.layer ? sub(v[e], mean) : v[e], rstd);
    v[e] = p.modulated(a, e, p.weighted(a, e, n));
  }
  set_results(a.y, r, c, v);
}
template <int W> DEV void norm_apply(const NormArgs& a, i64 r, float mean, float rstd) {
  i64 s = sample_of(r, a.per);
  for (int c = (threadIdx.x & 31) * W; c < a.x.cols; c += 32 * W) {
    float v[W];
    get(v, a.x, r, c);
    norm_set(a, s, r, c, v, mean, rstd);
  }
}
DEV void norm_keep(const NormArgs& a, i64 r, float mean, float rstd) {
  if (a.mean.p && a.layer) ((float*)a.mean.p)[r] = mean;
  if (a.rstd.p) ((float*)a.rstd.p)[r] = rstd;
}
DEV float rstd_of(const NormArgs& a, float square) { return quotient(1, root(add(mul(square, a.inv), a.eps))); }
KERNEL(norm, NormArgs, 128) {
  i64 r = warp_row();
  if (r >= a.x.rows) return;
  int cols = a.x.cols;
  auto x = [&](int i) { return raw(a.x, r, i); };
  float mean = 0;
  if (a.layer) mean = mul(row_sum(cols, x, [&](uint32_t u, int, float s) { return add(s, value(u, a.x.type)); }), a.inv);
  float rstd = rstd_of(a, row_sum(cols, x, [&](uint32_t u, int, float s) {
    float d = value(u, a.x.type);
    if (a.layer) d = sub(d, mean);
    return fma_(d, d, s);
  }));
  if (cols % 8 == 0 && wide(a.x, a.y, a.weight, a.bias, a.scale, a.shift))
    norm_apply<8>(a, r, mean, rstd);
  else
    norm_apply<1>(a, r, mean, rstd);
  if ((threadIdx.x & 31) == 0) norm_keep(a, r, mean, rstd);
}
KERNEL(norm_long, NormArgs, 128) {
  SHARED(float, room);
  LongRow at(a.warps, a.x.rows);
  i64 r = at.r;
  int cols = a.x.cols;
  float* row = room + at.number * cols;
  pieces(at, cols, [&](int c) { return read_piece(a.x, r, c); }, [&](int c, const Brought& u) {
    float v[8];
    numbers(v, u, a.x.type);
    lay(row, c, v);
  });
  __syncthreads();
  float mean = 0;
  if (a.layer) mean = mul(laid_sum(row, cols, [](float x, float s) { return add(s, x); }), a.inv);
  float rstd = rstd_of(a, laid_sum(row, cols, [&](float x, float s) {
    if (a.layer) x = sub(x, mean);
    return fma_(x, x, s);
  }));
  i64 s = sample_of(r, a.per);
  if (!at.live) return;
  UNROLL_BY(3) for (int c = at.first; c < cols; c += at.threads * 8) {
    float v[8];
    take(v, row, c);
    norm_set(a, s, r, c, v, mean, rstd);
  }
  if (at.first == 0) norm_keep(a, r, mean, rstd);
}
KERNEL(norm_short, NormArgs, 128) {
  i64 r = short_row();
  int cols = a.x.cols, lane = threadIdx.x & 7;
  bool live = r < a.x.rows;
  float v[SHORT][8] = {}, t[8] = {}, mean = 0;
  short_pieces(live, lane, cols, [&](int k, int c) { get_as_is(v[k], a.x, r, c); });
  if (a.layer) {
    short_pieces(live, lane, cols, [&](int k, int) { UNROLL for (int e = 0; e < 8; e++) t[e] = add(t[e], v[k][e]); });
    mean = mul(short_tree(t), a.inv);
    UNROLL for (int e = 0; e < 8; e++) t[e] = 0;
  }
  short_pieces(live, lane, cols, [&](int k, int) {
    UNROLL for (int e = 0; e < 8; e++) {
      float d = a.layer ? sub(v[k][e], mean) : v[k][e];
      t[e] = fma_(d, d, t[e]);
    }
  });
  float rstd = rstd_of(a, short_tree(t));
  i64 s = sample_of(r, a.per);
  short_pieces(live, lane, cols, [&](int k, int c) { norm_set(a, s, r, c, v[k], mean, rstd); });
  if (live && lane == 0) norm_keep(a, r, mean, rstd);
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
// The same from whole pieces: d becomes the gradient at the normalised elements, which x becomes.
DEV void slopes(const NormArgs& a, i64 s, int c, float mean, float rstd, float (&x)[8], float (&d)[8]) {
  float scale[8], weight[8];
  if (a.scale.p) get_as_is(scale, a.scale, s, c);
  if (a.weight.p) get_as_is(weight, a.weight, c);
  UNROLL for (int e = 0; e < 8; e++) {
    x[e] = mul(a.layer ? sub(x[e], mean) : x[e], rstd);
    if (a.scale.p) d[e] = mul(d[e], add(1, scale[e]));
    if (a.weight.p) d[e] = mul(d[e], weight[e]);
  }
}
// norm_back makes the gradient at x of the gradients at the normalised elements n, and writes it.
DEV void norm_back(const NormArgs& a, i64 r, int c, const float (&n)[8], float (&d)[8], float c1, float c2, float rstd) {
  UNROLL for (int e = 0; e < 8; e++) d[e] = mul(fma_(-n[e], c2, a.layer ? sub(d[e], c1) : d[e]), rstd);
  set_results(a.dx, r, c, d);
}
KERNEL(norm_backward_long, NormArgs, 128) {
  SHARED(float, room);
  LongRow at(a.warps, a.x.rows);
  i64 r = at.r, s = sample_of(r, a.per);
  int cols = a.x.cols;
  float mean = a.layer ? ((const float*)a.mean.p)[r] : 0, rstd = ((const float*)a.rstd.p)[r];
  float *normal = room + at.number * 2 * cols, *gradient = normal + cols;
  struct Brought2 { Brought x, dy; };
  pieces(at, cols, [&](int c) { return Brought2{read_piece(a.x, r, c), read_piece(a.dy, r, c)}; }, [&](int c, const Brought2& u) {
    float x[8], d[8];
    numbers(x, u.x, a.x.type), numbers(d, u.dy, a.dy.type);
    slopes(a, s, c, mean, rstd, x, d);
    lay(normal, c, x), lay(gradient, c, d);
  });
  __syncthreads();
  float c2 = mul(laid_sum2(gradient, normal, cols, [](float d, float n, float t) { return fma_(d, n, t); }), a.inv), c1 = 0;
  if (a.layer) c1 = mul(laid_sum(gradient, cols, [](float d, float t) { return add(t, d); }), a.inv);
  if (!at.live) return;
  for (int c = at.first; c < cols; c += at.threads * 8) {
    float n[8], d[8];
    take(n, normal, c), take(d, gradient, c);
    norm_back(a, r, c, n, d, c1, c2, rstd);
  }
}
KERNEL(norm_backward_short, NormArgs, 128) {
  i64 r = short_row();
  int cols = a.x.cols, lane = threadIdx.x & 7;
  bool live = r < a.x.rows;
  i64 s = sample_of(r, a.per);
  float mean = live && a.layer ? ((const float*)a.mean.p)[r] : 0, rstd = live ? ((const float*)a.rstd.p)[r] : 0;
  float n[SHORT][8] = {}, d[SHORT][8] = {}, t[8] = {}, c1 = 0;
  short_pieces(live, lane, cols, [&](int k, int c) { get_as_is(n[k], a.x, r, c), get_as_is(d[k], a.dy, r, c); });
  short_pieces(live, lane, cols, [&](int k, int c) {
    slopes(a, s, c, mean, rstd, n[k], d[k]);
    UNROLL for (int e = 0; e < 8; e++) t[e] = fma_(d[k][e], n[k][e], t[e]);
  });
  float c2 = mul(short_tree(t), a.inv);
  if (a.layer) {
    UNROLL for (int e = 0; e < 8; e++) t[e] = 0;
    short_pieces(live, lane, cols, [&](int k, int) { UNROLL for (int e = 0; e < 8; e++) t[e] = add(t[e], d[k][e]); });
    c1 = mul(short_tree(t), a.inv);
  }
  short_pieces(live, lane, cols, [&](int k, int c) { norm_back(a, r, c, n[k], d[k], c1, c2, rstd); });
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

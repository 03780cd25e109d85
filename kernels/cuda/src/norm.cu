// norm.cu: layer and RMS norm with their modulation, and what leads back. One warp a row, four rows a block;
// sums follow the tree of ref/sum.go. Gradients over the rows of a sample are one thread a column.
#include "pieces.h"

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

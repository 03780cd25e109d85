// softmax.cu: what weighs or looks up rows: softmax, log-probabilities of tokens, embeddings. One warp a row.
#include "pieces.h"

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

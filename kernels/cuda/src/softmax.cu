// softmax.cu: what weighs or looks up rows: softmax, log-probabilities of tokens, embeddings. One warp a row.
#include "wide.h"

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
KERNEL(softmax_wide, SoftmaxArgs, 512) {
  SHARED(float, room);
  i64 r = blockIdx.x;
  int cols = a.x.cols;
  float m = wide_largest(cols, room, [&](int i) { return at(a.x, r, i); });
  float sum = wide_sum(cols, room, [&](int i) { return Term{exp_(sub(at(a.x, r, i), m)), 0}; }, [](float x, float, float t) { return add(t, x); });
  float inv = quotient(1, sum);
  for (int c = threadIdx.x; c < cols; c += WIDE_THREADS) put(a.y, r, c, mul(exp_(sub(at(a.x, r, c), m)), inv));
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
KERNEL(log_softmax_gather_wide, GatherArgs, 512) {
  SHARED(float, room);
  i64 r = blockIdx.x;
  int cols = a.x.cols;
  auto z = [&](int i) { return scaled(a, raw(a.x, r, i)); };
  float m = wide_largest(cols, room, z);
  float s = wide_sum(cols, room, [&](int i) { return Term{exp_(sub(z(i), m)), 0}; }, [](float x, float, float t) { return add(t, x); });
  float lse = add(m, log_(s));
  if (threadIdx.x == 0 && a.lse) a.lse[r] = lse;
  if (threadIdx.x == 0 && a.out) {
    int i = a.index[r];
    a.out[r] = i >= 0 ? sub(z(i), lse) : 0;
  }
  if (!a.entropy) return;
  float h = wide_sum(cols, room, [&](int i) { return Term{exp_(sub(z(i), m)), z(i)}; }, [](float e, float z, float t) { return fma_(e, e == 0 ? 0 : z, t); });
  if (threadIdx.x == 0) a.entropy[r] = sub(lse, mul(h, quotient(1, s)));
}
template <int W> DEV void gather_back(const GatherArgs& a) {
  each_piece<W>(a.x.rows, a.x.cols, [&](i64 r, int c) {
    int index = a.index[r];
    float x[W] = {}, d = index < 0 ? 0 : mul(flush(a.dout[r]), a.inv);
    if (index >= 0) {
      get(x, a.x, r, c);
      UNROLL for (int e = 0; e < W; e++) {
        float z = a.inv == 1 ? x[e] : mul(x[e], a.inv);
        x[e] = mul(-d, exp_(sub(z, a.lse[r])));
        if (c + e == index) x[e] = add(d, x[e]);
      }
    }
    set(a.dx, r, c, x);
  });
}
KERNEL(log_softmax_gather_backward, GatherArgs, 256) {
  if (a.x.cols % 8 == 0 && wide(a.x, a.dx))
    gather_back<8>(a);
  else
    gather_back<1>(a);
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

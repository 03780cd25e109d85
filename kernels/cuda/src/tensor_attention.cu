// tensor_attention.cu: attention and its backward on tensor cores, the online softmax of
// FlashAttention-2 (Dao 2023), with what attention.cu defines: masks, lengths, grouped heads, the
// base-2 log-sum-exp. What differs from that twin: sums of products are in the unit's order, keys come
// 64 at a time, and sums over a row go by four lanes.
//
// A warp has 16 rows of its own; what it multiplies them with - 64 or 32 rows of the others - lies in
// shared memory, D elements a row, in pieces of 16 bytes moved about by row % 8. Nothing is split over
// blocks and no block adds to another's result, so a row's bits depend neither on the batch nor on
// where it stands, and the backward's sums have one order.
#include "attention.cu"

template <int D> DEV int spot(int row, int piece) { return row * D + ((piece ^ (row & 7)) << 3); }

// rows_to_shared copies N rows of a head of bf16, from s0 on; beyond limit, and beyond d, zeros.
template <int D, int N> DEV void rows_to_shared(uint16_t* to, const Heads& x, int b, int h, int s0, int limit) {
  const uint16_t* from = (const uint16_t*)x.p;
  for (int c = threadIdx.x; c < N * D / 8; c += 128) {
    int r = c / (D / 8), piece = c % (D / 8);
    bool inside = s0 + r < limit && piece * 8 < x.d;
    copy_async(to + spot<D>(r, piece), inside ? from + head(x, b, s0 + r, h) + piece * 8 : from, inside ? 16 : 0);
  }
}
// pairs: s = own rows (16 of them, from row0 on) times the others' (N of them), over D.
template <int D, int N> DEV void pairs(float (&s)[N / 8][4], const uint16_t* own, int row0, const uint16_t* others) {
  int lane = threadIdx.x & 31;
  UNROLL for (int j = 0; j < N / 8; j++)
    UNROLL for (int e = 0; e < 4; e++) s[j][e] = 0;
  UNROLL for (int k = 0; k < D / 16; k++) {
    uint32_t x[4], y[4];
    load_matrix(x, own + spot<D>(row0 + (lane & 15), k * 2 + (lane >> 4)));
    UNROLL for (int j = 0; j < N / 16; j++) {
      load_matrix(y, others + spot<D>(j * 16 + (lane & 7) + (lane >> 4) * 8, k * 2 + ((lane >> 3) & 1)));
      multiply(s[2 * j], x, y);
      multiply(s[2 * j + 1], x, y + 2);
    }
  }
}
// mixed: o += weights (16 x N, rounded to bf16) times the others' rows.
template <int D, int N> DEV void mixed(float (&o)[D / 8][4], const float (&w)[N / 8][4], const uint16_t* others) {
  int lane = threadIdx.x & 31;
  UNROLL for (int k = 0; k < N / 16; k++) {
    const float *u = w[2 * k], *v = w[2 * k + 1];
    uint32_t x[4] = {pack2(u[0], u[1]), pack2(u[2], u[3]), pack2(v[0], v[1]), pack2(v[2], v[3])}, y[4];
    UNROLL for (int d = 0; d < D / 16; d++) {
      load_matrix_turned(y, others + spot<D>(k * 16 + (lane & 15), d * 2 + (lane >> 4)));
      multiply(o[2 * d], x, y);
      multiply(o[2 * d + 1], x, y + 2);
    }
  }
}
template <int D> DEV void tensor_forward(const AttentionArgs& a) {
  SHARED(uint16_t, q);
  uint16_t *k = q + 64 * D, *v = k + 64 * D;
  int groups = (a.q.s + 63) / 64, i0 = (int)(blockIdx.x % groups) * 64, h = (int)(blockIdx.x / groups % a.q.h), b = (int)(blockIdx.x / groups / a.q.h);
  int kh = h / (a.q.h / a.k.h), n = keys_of(a, b), row0 = threadIdx.x / 32 * 16;
  int reach = seen_by(a, n, (i0 + 64 < a.q.s ? i0 + 64 : a.q.s) - 1);
  float o[D / 8][4] = {}, m[2] = {-inf(), -inf()}, l[2] = {0, 0};
  int seen[2] = {seen_by(a, n, i0 + row0 + fragment_row(0)), seen_by(a, n, i0 + row0 + fragment_row(2))};
  rows_to_shared<D, 64>(q, a.q, b, h, i0, a.q.s);
  rows_to_shared<D, 64>(k, a.k, b, kh, 0, n);
  copy_commit();
  rows_to_shared<D, 64>(v, a.v, b, kh, 0, n);
  copy_commit();
  for (int k0 = 0; k0 < reach; k0 += 64) {
    copy_wait<1>();  // the keys are here, the values may not be
    __syncthreads();
    float s[8][4];
    pairs<D, 64>(s, q, row0, k);
    __syncthreads();
    if (k0 + 64 < reach) rows_to_shared<D, 64>(k, a.k, b, kh, k0 + 64, n);
    copy_commit();
    float most[2] = {-inf(), -inf()};
    UNROLL for (int j = 0; j < 8; j++)
      UNROLL for (int e = 0; e < 4; e++) {
        int key = k0 + fragment_col(j, e), i = i0 + row0 + fragment_row(e);
        bool sees = key < seen[e >> 1];
        if (a.bias) s[j][e] = fma_(s[j][e], a.c, sees && i < a.q.s ? mul(flush(a.bias[b * a.bias_b + h * a.bias_h + i * a.bias_q + key]), LOG2E) : 0);
        if (sees && s[j][e] > most[e >> 1]) most[e >> 1] = s[j][e];
      }
    float rescale[2], top[2];
    UNROLL for (int r = 0; r < 2; r++) {
      most[r] = larger(__shfl_xor_sync(ALL, most[r], 1), most[r]);
      most[r] = larger(__shfl_xor_sync(ALL, most[r], 2), most[r]);
      if (!a.bias) most[r] = mul(most[r], a.c);
      float next = larger(most[r], m[r]);
      rescale[r] = next != m[r] ? exp2_short(sub(m[r], next)) : 1;
      m[r] = next, top[r] = next == -inf() ? 0 : next, l[r] = mul(l[r], rescale[r]);
    }
    UNROLL for (int j = 0; j < 8; j++)
      UNROLL for (int e = 0; e < 4; e++) {
        int r = e >> 1;
        float w = k0 + fragment_col(j, e) < seen[r] ? exp2_short_inline(a.bias ? sub(s[j][e], top[r]) : fma_(s[j][e], a.c, -top[r])) : 0;
        s[j][e] = w, l[r] = add(l[r], w);
      }
    UNROLL for (int d = 0; d < D / 8; d++)
      UNROLL for (int e = 0; e < 4; e++) o[d][e] = mul(o[d][e], rescale[e >> 1]);
    copy_wait<1>();
    __syncthreads();
    mixed<D, 64>(o, s, v);
    __syncthreads();
    if (k0 + 64 < reach) rows_to_shared<D, 64>(v, a.v, b, kh, k0 + 64, n);
    copy_commit();
  }
  float factor[2];
  UNROLL for (int r = 0; r < 2; r++) {
    l[r] = add(l[r], __shfl_xor_sync(ALL, l[r], 1));
    l[r] = add(l[r], __shfl_xor_sync(ALL, l[r], 2));
    factor[r] = l[r] != 0 ? quotient(1, l[r]) : 0;
    int i = i0 + row0 + fragment_row(2 * r);
    if ((threadIdx.x & 3) == 0 && i < a.q.s && a.lse) a.lse[((i64)b * a.q.h + h) * a.q.s + i] = l[r] != 0 ? fma_(log_(l[r]), LOG2E, m[r]) : -inf();
  }
  keep_rows<D>(a.o, b, h, i0 + row0 + fragment_row(0), a.q.s, a.q.s, o, factor);
}
KERNEL(attention_tensor_64, AttentionArgs, 128) { tensor_forward<64>(a); }
KERNEL(attention_tensor_128, AttentionArgs, 128) { tensor_forward<128>(a); }

// tensor_slope turns a score and dP into p and dS, for query i and key j.
DEV void tensor_slope(const AttentionArgs& a, int b, int h, int i, int j, int n, float lse, float delta, float& s, float& dp) {
  bool seen = i < a.q.s && j < seen_by(a, n, i);
  float z = a.bias && seen ? sub(fma_(s, a.c, mul(flush(a.bias[b * a.bias_b + h * a.bias_h + i * a.bias_q + j]), LOG2E)), lse) : fma_(s, a.c, -lse);
  float w = exp2_short_inline(z);
  w = seen && lse != -inf() ? w : 0;
  s = w, dp = seen ? mul(mul(w, sub(dp, delta)), a.scale) : 0;
}

template <int D> DEV void tensor_queries(const AttentionArgs& a) {
  SHARED(uint16_t, q);
  uint16_t *g = q + 64 * D, *k = g + 64 * D, *v = k + 64 * D;
  int groups = (a.q.s + 63) / 64, i0 = (int)(blockIdx.x % groups) * 64, h = (int)(blockIdx.x / groups % a.q.h), b = (int)(blockIdx.x / groups / a.q.h);
  int kh = h / (a.q.h / a.k.h), n = keys_of(a, b), row0 = threadIdx.x / 32 * 16;
  int reach = seen_by(a, n, (i0 + 64 < a.q.s ? i0 + 64 : a.q.s) - 1);
  float o[D / 8][4] = {}, lse[2], delta[2];
  UNROLL for (int r = 0; r < 2; r++) {
    int i = i0 + row0 + fragment_row(2 * r);
    i64 u = ((i64)b * a.q.h + h) * a.q.s + i;
    lse[r] = i < a.q.s ? a.lse[u] : -inf(), delta[r] = i < a.q.s ? a.delta[u] : 0;
  }
  rows_to_shared<D, 64>(q, a.q, b, h, i0, a.q.s);
  rows_to_shared<D, 64>(g, a.dout, b, h, i0, a.q.s);
  for (int k0 = 0; k0 < reach; k0 += 64) {
    rows_to_shared<D, 64>(k, a.k, b, kh, k0, n);
    rows_to_shared<D, 64>(v, a.v, b, kh, k0, n);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    float s[8][4], dp[8][4];
    pairs<D, 64>(s, q, row0, k);
    pairs<D, 64>(dp, g, row0, v);
    UNROLL for (int j = 0; j < 8; j++)
      UNROLL for (int e = 0; e < 4; e++)
        tensor_slope(a, b, h, i0 + row0 + fragment_row(e), k0 + fragment_col(j, e), n, lse[e >> 1], delta[e >> 1], s[j][e], dp[j][e]);
    mixed<D, 64>(o, dp, k);
    __syncthreads();
  }
  keep_rows<D>(a.dq, b, h, i0 + row0 + fragment_row(0), a.q.s, a.q.s, o, nullptr);
}
KERNEL(attention_tensor_queries_64, AttentionArgs, 128) { tensor_queries<64>(a); }
KERNEL(attention_tensor_queries_128, AttentionArgs, 128) { tensor_queries<128>(a); }

// The keys' pass takes 32 queries at a time: their rows, then log-sum-exps and deltas. The query heads
// of a group are added as they come, in order.
template <int D> DEV void tensor_keys(const AttentionArgs& a) {
  SHARED(uint16_t, k);
  uint16_t *v = k + 64 * D, *q = v + 64 * D, *g = q + 32 * D;
  int groups = (a.k.s + 63) / 64, j0 = (int)(blockIdx.x % groups) * 64, kh = (int)(blockIdx.x / groups % a.k.h), b = (int)(blockIdx.x / groups / a.k.h);
  int group = a.q.h / a.k.h, n = keys_of(a, b), row0 = threadIdx.x / 32 * 16;
  float dk[D / 8][4] = {}, dv[D / 8][4] = {};
  rows_to_shared<D, 64>(k, a.k, b, kh, j0, n);
  rows_to_shared<D, 64>(v, a.v, b, kh, j0, n);
  copy_commit();
  // Queries before the first that sees a key of this block have no part in it.
  int first = a.causal ? j0 - (a.k.s - a.q.s) : 0;
  first = first < 0 ? 0 : first / 32 * 32;
  for (int h = kh * group; h < (kh + 1) * group && j0 < n; h++)
    for (int i0 = first; i0 < a.q.s; i0 += 32) {
      rows_to_shared<D, 32>(q, a.q, b, h, i0, a.q.s);
      rows_to_shared<D, 32>(g, a.dout, b, h, i0, a.q.s);
      copy_commit();
      copy_wait<0>();
      __syncthreads();
      float s[4][4], dp[4][4];
      pairs<D, 32>(s, k, row0, q);
      pairs<D, 32>(dp, v, row0, g);
      UNROLL for (int j = 0; j < 4; j++)
        UNROLL for (int e = 0; e < 4; e++) {
          int i = i0 + fragment_col(j, e);
          i64 u = ((i64)b * a.q.h + h) * a.q.s + i;
          tensor_slope(a, b, h, i, j0 + row0 + fragment_row(e), n, i < a.q.s ? a.lse[u] : -inf(), i < a.q.s ? a.delta[u] : 0, s[j][e], dp[j][e]);
        }
      mixed<D, 32>(dk, dp, q);
      mixed<D, 32>(dv, s, g);
      __syncthreads();
    }
  copy_wait<0>();
  keep_rows<D>(a.dk, b, kh, j0 + row0 + fragment_row(0), a.k.s, n, dk, nullptr);
  keep_rows<D>(a.dv, b, kh, j0 + row0 + fragment_row(0), a.k.s, n, dv, nullptr);
}
KERNEL(attention_tensor_keys_64, AttentionArgs, 128) { tensor_keys<64>(a); }
KERNEL(attention_tensor_keys_128, AttentionArgs, 128) { tensor_keys<128>(a); }

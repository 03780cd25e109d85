// attention.cu: attention and its backward in the arithmetic of ref/attention.go and
// ref/attention_backward.go, bit for bit, on the fp32 units.
//
// A block takes 16 rows of one head - queries, or keys in the keys' pass - and walks over the
// others 256 at a time: first one thread a score (its other's row from memory, the 16 rows from
// shared memory), then one thread a column of the 16 results, over the scores in order. Nothing
// is split and nothing is added by two threads, so a row's bits depend on that row alone.
#pragma once
#include "attention.h"

const int OWN = 16, OTHERS = 256;

template <bool BF16> DEV float exp2_of(float x) { return BF16 ? exp2_short(x) : exp2_(x); }
template <bool BF16> DEV float operand(const Heads& x, i64 i) {
  float v = load(x.p, x.type, i);
  return BF16 ? rounded(v) : v;
}
// dots are the products over d of one row in memory with the 16 in shared memory.
template <bool BF16> DEV void dots(const Heads& x, i64 row, const float* own, int d, float* sum) {
  UNROLL for (int r = 0; r < OWN; r++) sum[r] = 0;
  if constexpr (!BF16) {
    for (int c = 0; c < d; c++) {
      float v = operand<false>(x, row + c);
      UNROLL for (int r = 0; r < OWN; r++) sum[r] = fma_(own[r * d + c], v, sum[r]);
    }
  } else for (int c0 = 0; c0 < d; c0 += 32) {
    float e[OWN] = {}, o[OWN] = {};
    for (int c = c0; c < c0 + 32; c += 2) {  // beyond d both sides are zeros, which are multiplied too
      float u = c < d ? operand<true>(x, row + c) : 0, v = c + 1 < d ? operand<true>(x, row + c + 1) : 0;
      UNROLL for (int r = 0; r < OWN; r++) {
        e[r] = fma_(c < d ? own[r * d + c] : 0, u, e[r]);
        o[r] = fma_(c + 1 < d ? own[r * d + c + 1] : 0, v, o[r]);
      }
    }
    UNROLL for (int r = 0; r < OWN; r++) sum[r] = add(sum[r], add(e[r], o[r]));
  }
}

// across adds the product of one line of weights, n long, with a column of rows in memory to sum.
// In bf16 math it is padded to 32; in fp32 too where pad says so.
template <bool BF16> DEV float across(const float* w, const Heads& x, i64 at, i64 step, int n, bool pad, float sum) {
  if constexpr (!BF16) {
    for (int j = 0; j < n; j++) sum = fma_(w[j], operand<false>(x, at + j * step), sum);
    if (pad && (n & 31)) sum = fma_(0, 0, sum);
  } else for (int j0 = 0; j0 < n; j0 += 32) {
    float e = 0, o = 0;
    for (int j = j0; j < j0 + 32; j += 2) {
      e = fma_(j < n ? w[j] : 0, j < n ? operand<true>(x, at + j * step) : 0, e);
      o = fma_(j + 1 < n ? w[j + 1] : 0, j + 1 < n ? operand<true>(x, at + (j + 1) * step) : 0, o);
    }
    sum = add(sum, add(e, o));
  }
  return sum;
}

// own_rows reads 16 rows of a head, zeros beyond its end.
template <bool BF16> DEV void own_rows(float* to, const Heads& x, int b, int h, int s0) {
  for (int e = threadIdx.x; e < OWN * x.d; e += OTHERS) {
    int r = e / x.d;
    to[e] = s0 + r < x.s ? operand<BF16>(x, head(x, b, s0 + r, h) + e % x.d) : 0;
  }
}

// Forward. Shared memory: 16 queries, 16 x 256 scores, 16 results, then m, l and the rescaling of each.
template <bool BF16> DEV void forward(const AttentionArgs& a) {
  SHARED(float, q);
  float *z = q + OWN * a.q.d, *o = z + OWN * OTHERS, *m = o + OWN * a.v.d, *l = m + OWN, *rescale = l + OWN;
  i64 groups = (a.q.s + OWN - 1) / OWN;
  int i0 = (int)(blockIdx.x % groups) * OWN, h = (int)(blockIdx.x / groups % a.q.h), b = (int)(blockIdx.x / groups / a.q.h);
  int kh = h / (a.q.h / a.k.h), n = keys_of(a, b), t = threadIdx.x, lane = t & 31;
  int last = i0 / 32 * 32 + 32 < a.q.s ? i0 / 32 * 32 + 32 : a.q.s, reach = seen_by(a, n, last - 1);
  own_rows<BF16>(q, a.q, b, h, i0);
  for (int e = t; e < OWN * a.v.d; e += OTHERS) o[e] = 0;
  if (t < OWN) m[t] = -inf(), l[t] = 0;
  for (int k0 = 0; k0 < reach; k0 += OTHERS) {
    int block = n - k0 < OTHERS ? n - k0 : OTHERS;
    __syncthreads();
    if (t < block) {
      float s[OWN];
      dots<BF16>(a.k, head(a.k, b, k0 + t, kh), q, a.q.d, s);
      UNROLL for (int r = 0; r < OWN; r++) {
        if (a.bias && i0 + r < a.q.s) s[r] = fma_(s[r], a.c, mul(flush(a.bias[b * a.bias_b + h * a.bias_h + (i0 + r) * a.bias_q + k0 + t]), LOG2E));
        z[r * OTHERS + t] = s[r];
      }
    }
    __syncthreads();
    for (int r = t >> 5; r < OWN; r += 8) {  // a warp a query: its maximum
      int seen = seen_by(a, n, i0 + r) - k0;
      seen = seen < 0 ? 0 : seen < block ? seen : block;
      float most = warp_largest(seen, [&](int j) { return z[r * OTHERS + j]; });
      if (!a.bias) most = mul(most, a.c);
      float before = m[r], next = larger(most, before);
      __syncwarp();
      if (lane == 0) {
        rescale[r] = 1;
        if (next != before) {
          float s = exp2_of<BF16>(sub(before, next));
          rescale[r] = s, m[r] = next, l[r] = mul(l[r], s);
        }
      }
    }
    __syncthreads();
    if (t < block) UNROLL for (int r = 0; r < OWN; r++) {
      float w = 0, top = m[r] == -inf() ? 0 : m[r], s = z[r * OTHERS + t];
      if (k0 + t < seen_by(a, n, i0 + r)) w = exp2_of<BF16>(a.bias ? sub(s, top) : fma_(s, a.c, -top));
      z[r * OTHERS + t] = w;
    }
    __syncthreads();
    if (t < OWN) {  // l: one key after another
      float sum = l[t];
      for (int j = 0; j < block; j++) sum = add(sum, z[t * OTHERS + j]);
      l[t] = sum;
    }
    if (BF16) {
      __syncthreads();
      if (t < block) UNROLL for (int r = 0; r < OWN; r++) z[r * OTHERS + t] = rounded(z[r * OTHERS + t]);
      __syncthreads();
    }
    for (int e = t; e < OWN * a.v.d; e += OTHERS) {
      int r = e / a.v.d;
      float v = rescale[r] == 1 ? o[e] : mul(o[e], rescale[r]);
      o[e] = across<BF16>(z + r * OTHERS, a.v, head(a.v, b, k0, kh) + e % a.v.d, a.v.ss, block, false, v);
    }
  }
  __syncthreads();
  for (int e = t; e < OWN * a.v.d; e += OTHERS) {
    int r = e / a.v.d;
    if (i0 + r < a.q.s) store(a.o.p, a.o.type, head(a.o, b, i0 + r, h) + e % a.v.d, l[r] != 0 ? mul(o[e], quotient(1, l[r])) : 0);
  }
  if (t < OWN && i0 + t < a.q.s && a.lse)
    a.lse[((i64)b * a.q.h + h) * a.q.s + i0 + t] = l[t] != 0 ? fma_(log_(l[t]), LOG2E, m[t]) : -inf();
}
KERNEL(attention_f32, AttentionArgs, 256) { forward<false>(a); }
KERNEL(attention_bf16, AttentionArgs, 256) { forward<true>(a); }

// Delta is dO·O of each query: a warp a query, four of one head to a block.
KERNEL(attention_delta, AttentionArgs, 128) {
  unsigned blocks = (a.q.s + 3) / 4, heads = blockIdx.x / blocks;
  int i = (int)(blockIdx.x % blocks * 4 + threadIdx.x / 32), h = (int)(heads % a.q.h), b = (int)(heads / a.q.h);
  if (i >= a.q.s) return;
  i64 u = (i64)heads * a.q.s + i;
  i64 x = head(a.dout, b, i, h), y = head(a.o, b, i, h);
  float s = warp_sum(a.o.d, [&](int c, float t) { return fma_(load(a.dout.p, a.dout.type, x + c), load(a.o.p, a.o.type, y + c), t); });
  if ((threadIdx.x & 31) == 0) a.delta[u] = s;
}

// slope is p and the gradient at the scaled scores, of one query and one key.
template <bool BF16> CALLED void slope(const AttentionArgs& a, int b, int h, int i, int j, int n, float s, float dp, float* p, float* ds) {
  i64 u = ((i64)b * a.q.h + h) * a.q.s + i;
  float lse = a.lse[u], w = 0;
  bool seen = j < seen_by(a, n, i);
  if (seen && lse != -inf()) {
    if (a.bias)
      w = exp2_of<BF16>(sub(fma_(s, a.c, mul(flush(a.bias[b * a.bias_b + h * a.bias_h + i * a.bias_q + j]), LOG2E)), lse));
    else
      w = exp2_of<BF16>(fma_(s, a.c, -lse));
  }
  *p = w;
  *ds = seen ? mul(w, sub(dp, a.delta[u])) : 0;
}

// The queries' pass: DQ. Shared memory: 16 queries and 16 of dO, 16 x 256 of dS, 16 results.
template <bool BF16> DEV void backward_queries(const AttentionArgs& a) {
  SHARED(float, q);
  float *g = q + OWN * a.q.d, *w = g + OWN * a.v.d, *o = w + OWN * OTHERS;
  i64 groups = (a.q.s + OWN - 1) / OWN;
  int i0 = (int)(blockIdx.x % groups) * OWN, h = (int)(blockIdx.x / groups % a.q.h), b = (int)(blockIdx.x / groups / a.q.h);
  int kh = h / (a.q.h / a.k.h), n = keys_of(a, b), t = threadIdx.x;
  own_rows<BF16>(q, a.q, b, h, i0);
  own_rows<BF16>(g, a.dout, b, h, i0);
  for (int e = t; e < OWN * a.q.d; e += OTHERS) o[e] = 0;
  for (int k0 = 0; k0 < n; k0 += OTHERS) {
    int block = n - k0 < OTHERS ? n - k0 : OTHERS;
    __syncthreads();
    if (t < block) {
      float s[OWN], dp[OWN];
      dots<BF16>(a.k, head(a.k, b, k0 + t, kh), q, a.q.d, s);
      dots<BF16>(a.v, head(a.v, b, k0 + t, kh), g, a.v.d, dp);
      UNROLL for (int r = 0; r < OWN; r++) {
        float p = 0, ds = 0;
        if (i0 + r < a.q.s) {
          slope<BF16>(a, b, h, i0 + r, k0 + t, n, s[r], dp[r], &p, &ds);
          if (a.slopes) a.slopes[(((i64)b * a.q.h + h) * a.q.s + i0 + r) * a.k.s + k0 + t] = ds;
        }
        ds = mul(ds, a.scale);
        w[r * OTHERS + t] = BF16 ? rounded(ds) : ds;
      }
    }
    __syncthreads();
    for (int e = t; e < OWN * a.q.d; e += OTHERS)
      o[e] = across<BF16>(w + e / a.q.d * OTHERS, a.k, head(a.k, b, k0, kh) + e % a.q.d, a.k.ss, block, k0 + block == n, o[e]);
  }
  __syncthreads();
  for (int e = t; e < OWN * a.q.d; e += OTHERS)
    if (i0 + e / a.q.d < a.q.s) store(a.dq.p, a.dq.type, head(a.dq, b, i0 + e / a.q.d, h) + e % a.q.d, o[e]);
}
KERNEL(attention_queries_f32, AttentionArgs, 256) { backward_queries<false>(a); }
KERNEL(attention_queries_bf16, AttentionArgs, 256) { backward_queries<true>(a); }

// The keys' pass: DK and DV, the query heads of a group in order. Shared memory: 16 keys and
// values, 16 x 256 of p and of dS, the results of one head and of all.
template <bool BF16> DEV void backward_keys(const AttentionArgs& a) {
  SHARED(float, k);
  int dd = a.k.d, dv = a.v.d, both = dd + dv;
  float *v = k + OWN * dd, *p = v + OWN * dv, *w = p + OWN * OTHERS, *o = w + OWN * OTHERS, *total = o + OWN * both;
  i64 groups = (a.k.s + OWN - 1) / OWN;
  int j0 = (int)(blockIdx.x % groups) * OWN, kh = (int)(blockIdx.x / groups % a.k.h), b = (int)(blockIdx.x / groups / a.k.h);
  int group = a.q.h / a.k.h, n = keys_of(a, b), t = threadIdx.x;
  own_rows<BF16>(k, a.k, b, kh, j0);
  own_rows<BF16>(v, a.v, b, kh, j0);
  for (int h = kh * group; h < (kh + 1) * group; h++) {
    for (int e = t; e < OWN * both; e += OTHERS) o[e] = 0;
    for (int i0 = 0; i0 < a.q.s; i0 += OTHERS) {
      int block = a.q.s - i0 < OTHERS ? a.q.s - i0 : OTHERS;
      __syncthreads();
      if (t < block) {
        float s[OWN], dp[OWN];
        dots<BF16>(a.q, head(a.q, b, i0 + t, h), k, dd, s);
        dots<BF16>(a.dout, head(a.dout, b, i0 + t, h), v, dv, dp);
        UNROLL for (int r = 0; r < OWN; r++) {
          float x = 0, ds = 0;
          if (j0 + r < n) slope<BF16>(a, b, h, i0 + t, j0 + r, n, s[r], dp[r], &x, &ds);
          ds = mul(ds, a.scale);
          p[r * OTHERS + t] = BF16 ? rounded(x) : x;
          w[r * OTHERS + t] = BF16 ? rounded(ds) : ds;
        }
      }
      __syncthreads();
      bool end = i0 + block == a.q.s;
      for (int e = t; e < OWN * both; e += OTHERS) {
        int r = e / both, c = e % both;
        o[e] = c < dd ? across<BF16>(w + r * OTHERS, a.q, head(a.q, b, i0, h) + c, a.q.ss, block, end, o[e])
                      : across<BF16>(p + r * OTHERS, a.dout, head(a.dout, b, i0, h) + c - dd, a.dout.ss, block, end, o[e]);
      }
    }
    for (int e = t; e < OWN * both; e += OTHERS) total[e] = h == kh * group ? o[e] : add(total[e], o[e]);
  }
  for (int e = t; e < OWN * both; e += OTHERS) {
    int r = e / both, c = e % both;
    if (j0 + r >= a.k.s) continue;
    float x = j0 + r < n ? total[e] : 0;
    if (c < dd)
      store(a.dk.p, a.dk.type, head(a.dk, b, j0 + r, kh) + c, x);
    else
      store(a.dv.p, a.dv.type, head(a.dv, b, j0 + r, kh) + c - dd, x);
  }
}
KERNEL(attention_keys_f32, AttentionArgs, 256) { backward_keys<false>(a); }
KERNEL(attention_keys_bf16, AttentionArgs, 256) { backward_keys<true>(a); }

// The bias's gradient: one thread a key of each place of its own, the rest added in order: heads,
// then batches, then queries.
KERNEL(attention_bias, AttentionArgs, 128) {
  bool pb = a.parallel & 1, ph = a.parallel & 2, pq = a.parallel & 4;
  i64 t = thread_index();
  int nb = pb ? a.q.b : 1, nh = ph ? a.q.h : 1, nq = pq ? a.q.s : 1;
  if (t >= (i64)a.k.s * nb * nh * nq) return;
  int j = (int)(t % a.k.s), iq = (int)(t / a.k.s % nq), ih = (int)(t / a.k.s / nq % nh), ib = (int)(t / a.k.s / nq / nh);
  for (int h = ph ? ih : 0; h < (ph ? ih + 1 : a.q.h); h++)
    for (int b = pb ? ib : 0; b < (pb ? ib + 1 : a.q.b); b++) {
      if (j >= keys_of(a, b)) continue;
      for (int i = pq ? iq : 0; i < (pq ? iq + 1 : a.q.s); i++) {
        float* to = a.dbias + b * a.bias_b + h * a.bias_h + i * a.bias_q + j;
        *to = add(*to, a.slopes[(((i64)b * a.q.h + h) * a.q.s + i) * a.k.s + j]);
      }
    }
}

// draw.cu: a token of each row of logits, as ref/draw.go defines it. A block a row. What it needs of a token it
// computes anew from the logit whenever it looks at it, so that nothing of a row's length is written.
#include "wide.h"

typedef unsigned long long u64;
const int DRAW_BLOCK = 512, WARPS = WIDE_THREADS / 32, DIGITS = 7;
const uint32_t MOST_DRAWN = 1 << 20;

struct DrawArgs {
  Mat x;
  const uint32_t *banned, *seen;
  const double* uniform;
  const int* given;
  int* token;
  float *logprob, *entropy;
  float inverse, penalty, least;
  uint32_t drop;
  int most, top_p, words, pad;
};

// logits calls f(k, i, logit) for the tokens i = first + k·step, of N below an end: all are read before the first is used.
template <int N, class F> DEV void logits(const DrawArgs& a, i64 r, int first, int step, int end, F f) {
  uint32_t l[N], out[N], seen[N];
  UNROLL for (int k = 0; k < N; k++) {
    int i = first + k * step;
    bool in = i < end;
    l[k] = in ? raw(a.x, r, i) : 0;
    out[k] = in && a.banned ? a.banned[i >> 5] : 0;
    seen[k] = in && a.seen ? a.seen[r * a.words + (i >> 5)] : 0;
  }
  UNROLL for (int k = 0; k < N; k++) {
    int i = first + k * step;
    if (i >= end) continue;
    float x = value(l[k], a.x.type);
    if (seen[k] >> (i & 31) & 1) x = x < 0 ? mul(x, a.penalty) : quotient(x, a.penalty);
    f(k, i, out[k] >> (i & 31) & 1 ? -inf() : x);
  }
}
// each_logit calls f(i, logit) for a thread's tokens of a row.
template <class F> DEV void each_logit(const DrawArgs& a, i64 r, F f) {
  const int AHEAD = 8;
  for (int from = threadIdx.x; from < a.x.cols; from += AHEAD * WIDE_THREADS)
    logits<AHEAD>(a, r, from, WIDE_THREADS, a.x.cols, [&](int, int i, float l) { f(i, l); });
}
DEV uint32_t draw_key(float d) { return bits(d) & 0x7fffffffu; }
// draw_mass is e·2^42, cut to a whole number.
DEV u64 draw_mass(float e) {
  int shift = (int)(bits(e) >> 23) - 108;
  u64 x = (bits(e) & 0x7fffffu) | 0x800000u;
  return shift < -23 ? 0 : shift < 0 ? x >> -shift : x << shift;
}
// block_sums adds up every thread's numbers; all have the sums.
template <int N> DEV void block_sums(u64 (&x)[N], u64* room) {
  UNROLL for (int k = 0; k < N; k++) {
    for (int d = 16; d; d >>= 1) x[k] += __shfl_xor_sync(ALL, x[k], d);
    if ((threadIdx.x & 31) == 0) room[threadIdx.x / 32 * N + k] = x[k];
  }
  __syncthreads();
  UNROLL for (int k = 0; k < N; k++) {
    x[k] = 0;
    for (int w = 0; w < WARPS; w++) x[k] += room[w * N + k];
  }
  __syncthreads();
}
// smallest finds the smallest key up to which weights add up to a goal, three bits of it at a time from a shift on: each calls a function for each
// key; below is what the smaller ones add up to.
template <class E, class W> DEV uint32_t smallest(int shift, u64 goal, u64& below, u64* room, E each, W weight) {
  uint32_t key = 0;
  below = 0;
  for (; shift >= 0; shift -= 3) {
    u64 upto[DIGITS] = {};
    each([&](uint32_t k) {
      if (k >> shift >> 3 != key) return;
      uint32_t digit = k >> shift & 7;
      u64 x = weight(k);
      UNROLL for (int d = 0; d < DIGITS; d++) upto[d] += digit <= d ? x : 0;
    });
    block_sums(upto, room);
    uint32_t digit = 0;
    u64 before = below;
    UNROLL for (int d = 0; d < DIGITS; d++)
      if (before + upto[d] < goal) digit = d + 1, below = before + upto[d];
    key = key << 3 | digit;
  }
  return key;
}

DEV void drawn(const DrawArgs& a, i64 r, int token, float logprob, float entropy) {
  if (threadIdx.x) return;
  a.token[r] = token;
  if (a.logprob) a.logprob[r] = logprob;
  if (a.entropy) a.entropy[r] = entropy;
}
KERNEL(draw, DrawArgs, 512) {
  SHARED(u64, room);
  i64 r = blockIdx.x;
  int cols = a.x.cols, t = threadIdx.x, lane = t & 31, blocks = (cols + DRAW_BLOCK - 1) / DRAW_BLOCK;
  double* totals = (double*)(room + DIGITS * WARPS);
  int* found = (int*)(totals + 2);
  float *sums = (float*)(found + 4), *dots = sums + blocks, *block = dots + blocks;

  float m = -inf();
  each_logit(a, r, [&](int, float l) {
    if (nan(l)) l = inf();
    if (l > m) m = l;
  });
  m = block_largest(m, (float*)room);
  if (m == inf() || m == -inf()) {
    drawn(a, r, m == inf() ? -1 : -2, 0, 0);
    return;
  }
  auto distance = [&](float l) { return mul(sub(l, m), a.inverse); };
  auto keys = [&](auto f) { each_logit(a, r, [&](int, float l) { f(draw_key(distance(l))); }); };
  auto one = [](uint32_t) { return (u64)1; };
  uint32_t last = 0x7fffffffu;
  int first = 0;
  u64 below;
  if (a.most) last = smallest(30, (u64)a.most, below, room, keys, one);
  if (a.top_p) {
    auto mass = [&](uint32_t k) { return k <= last ? draw_mass(exp_(from_bits(k | 0x80000000u))) : (u64)0; };
    u64 all[1] = {0};
    keys([&](uint32_t k) { all[0] += mass(k); });
    block_sums(all, room);
    u64 goal = all[0] - ((all[0] >> 32) * a.drop + ((all[0] & 0xffffffffu) * a.drop >> 32));
    uint32_t key = smallest(30, goal, below, room, keys, mass);
    u64 weighs = mass(key), keep = (goal - below + weighs - 1) / weighs;
    last = key;
    u64 ties[1] = {0};
    keys([&](uint32_t k) { ties[0] += k == last; });
    block_sums(ties, room);
    auto places = [&](auto f) {
      each_logit(a, r, [&](int i, float l) {
        if (draw_key(distance(l)) == last) f(MOST_DRAWN - 1 - i);
      });
    };
    if (keep < ties[0]) first = MOST_DRAWN - 1 - smallest(18, keep, below, room, places, one);  // of the largest indices
  }
  auto stays = [&](int i, float d) {
    uint32_t k = draw_key(d);
    return k < last || (k == last && i >= first);
  };
  auto weight = [&](int i, float d) {
    float e = stays(i, d) ? exp_(d) : 0;
    return e < a.least ? 0 : e;
  };

  for (int b = t / 32; b < blocks; b += WARPS) {
    int from = b * DRAW_BLOCK, to = cols < from + DRAW_BLOCK ? cols : from + DRAW_BLOCK;
    float x[2] = {}, y[2] = {};
    logits<DRAW_BLOCK / 32>(a, r, from + lane, 32, to, [&](int k, int i, float l) {
      float d = distance(l), e = weight(i, d);
      x[k & 1] = add(x[k & 1], e);
      if (e != 0) y[k & 1] = fma_(e, d, y[k & 1]);
    });
    float s = tree(x[0], x[1]), h = tree(y[0], y[1]);
    if (lane == 0) sums[b] = s, dots[b] = h;
  }
  __syncthreads();
  int token = a.given ? a.given[r] : -1;
  if (t == 0) {
    double total = 0, weighted = 0;
    for (int b = 0; b < blocks; b++) total = __dadd_rn(total, (double)sums[b]), weighted = __dadd_rn(weighted, (double)dots[b]);
    totals[0] = total, totals[1] = weighted;
  }
  __syncthreads();
  float s = (float)totals[0], log = log_(s);
  float entropy = larger(sub(log, quotient((float)totals[1], s)), 0);
  if (token >= cols) {
    drawn(a, r, token, -inf(), entropy);
    return;
  }
  if (token < 0 && a.uniform) {
    double at = __dmul_rn(a.uniform[r], totals[0]), before = 0;
    if (t == 0) {
      double sum = 0;
      int chosen = 0;
      for (int b = 0; b < blocks; b++) {
        if (sums[b] == 0) continue;
        chosen = b, before = sum;
        sum = __dadd_rn(sum, (double)sums[b]);
        if (sum > at) break;
      }
      found[0] = chosen;
    }
    __syncthreads();
    int from = found[0] * DRAW_BLOCK, n = cols - from < DRAW_BLOCK ? cols - from : DRAW_BLOCK;
    logits<1>(a, r, from + t, 1, from + n, [&](int, int i, float l) { block[t] = weight(i, distance(l)); });
    __syncthreads();
    if (t == 0)
      for (int i = 0; i < n; i++) {
        if (block[i] == 0) continue;
        token = from + i;
        before = __dadd_rn(before, (double)block[i]);
        if (before > at) break;
      }
  } else if (token < 0) {  // the likeliest
    float least = -inf();
    each_logit(a, r, [&](int i, float l) {
      float d = distance(l);
      if (d == 0 && stays(i, d) && -(float)i > least) least = -(float)i;
    });
    token = (int)-block_largest(least, (float*)room);
  }
  if (t == 0)
    logits<1>(a, r, token, 1, cols, [&](int, int i, float l) {
      float d = distance(l);
      drawn(a, r, i, weight(i, d) == 0 && !(stays(i, d) && a.least == 0) ? -inf() : sub(d, log), entropy);
    });
}

// hopper_attention.cu: forward attention by wgmma, with what tensor_attention.cu defines: masks, lengths,
// grouped heads, the base-2 online softmax and its log-sum-exp.
//
// The algorithm is FlashAttention-3's (Shah et al. 2024; Dao-AILab/flash-attention, hopper/). One warp brings
// tiles of 128 keys and values, two stages of each. Two warpgroups (three for d <= 64, whose results are half as
// many) have 64 queries each. A warpgroup starts the scores of the next keys, then the mix of the last values,
// and forms the next weights while the mix runs; a token that goes round by numbered barriers lets one
// start products while the others are at their exponents. Both overlaps cost barriers, not registers:
// d = 128 holds 64 sums of results, 64 scores and 32 packed weights a thread.
//
// What differs from FlashAttention-3: keys ascend, so that tiles a query does not see come last and add zeros;
// nothing is split over keys and blocks do not persist. So a query's bits depend on its row and place and on its
// sample's keys (kernels/cuda/doc.go). What differs from tensor_attention.cu: exponents are the special unit's, and 128
// keys at a time, so running maxima, and with them the roundings of weights.
#include "hopper_tiles.h"

const int KEYS = 128;

// soften turns scores into weights and moves maxima and sums on; rescale is for what was summed under the old maximum.
template <int N> DEV void soften(float (&s)[N / 8][4], int left0, int left1, bool edge, float c, float* m, float* l, float* rescale) {
  if (edge) UNROLL for (int j = 0; j < N / 8; j++)
    UNROLL for (int e = 0; e < 4; e++) s[j][e] = fragment_col(j, e) < (e < 2 ? left0 : left1) ? s[j][e] : -inf();
  float most[2] = {-inf(), -inf()}, top[2];
  UNROLL for (int j = 0; j < N / 8; j++)
    UNROLL for (int e = 0; e < 4; e++) most[e >> 1] = most_of(most[e >> 1], s[j][e]);
  UNROLL for (int r = 0; r < 2; r++) {
    most[r] = most_of(most[r], __shfl_xor_sync(ALL, most[r], 1));
    most[r] = most_of(most[r], __shfl_xor_sync(ALL, most[r], 2));
    float next = most_of(mul(most[r], c), m[r]);
    rescale[r] = next != m[r] ? exp2_unit(sub(m[r], next)) : 1;
    m[r] = next, top[r] = next == -inf() ? 0 : next, l[r] = mul(l[r], rescale[r]);
  }
  UNROLL for (int j = 0; j < N / 8; j++)
    UNROLL for (int e = 0; e < 4; e++) {
      s[j][e] = exp2_unit(fma_(s[j][e], c, -top[e >> 1]));
      l[e >> 1] = add(l[e >> 1], s[j][e]);
    }
}

// FEW: one warpgroup has all queries of the heads that share keys, query by query, where these are no more than 64 rows
// (a token's attention, say): keys are read once for them.
template <int D, int GROUPS, bool FEW = false> DEV void hopper_forward(const HopperArgs& args) {
  const AttentionArgs& a = args.a;
  const int ROWS = 64 * GROUPS, TILE = KEYS * D * 2;
  int group = a.q.h / a.k.h, blocks = FEW ? 1 : (a.q.s + ROWS - 1) / ROWS, b = (int)(blockIdx.x / blocks);
  int kh = FEW ? (int)blockIdx.y : (int)blockIdx.y / group, h = FEW ? kh * group : (int)blockIdx.y;  // h: the first
  int i0 = (a.causal ? blocks - 1 - (int)(blockIdx.x % blocks) : (int)(blockIdx.x % blocks)) * ROWS;  // the longest first
  int n = keys_of(a, b), tiles = (seen_by(a, n, (i0 + ROWS < a.q.s ? i0 + ROWS : a.q.s) - 1) + KEYS - 1) / KEYS;
  uint32_t q = tiles_start(), k = q + ROWS * D * 2, v = k + 2 * TILE, bars = v + 2 * TILE;
  uint32_t q_full = bars, k_full = bars + 8, v_full = bars + 24, k_free = bars + 40, v_free = bars + 56;  // two stages each
  if (threadIdx.x == 0) {
    barrier_begin(q_full, 1);
    for (int i = 0; i < 16; i += 8) {
      barrier_begin(k_full + i, 1), barrier_begin(v_full + i, 1);
      barrier_begin(k_free + i, 4 * GROUPS), barrier_begin(v_free + i, 4 * GROUPS);
    }
    barriers_begun();
  }
  __syncthreads();
  if (crew() < 0) {
    if constexpr (GROUPS > 1) give_registers<Roles<GROUPS>::GIVE>();
    if (threadIdx.x == 0 && tiles > 0) {
      expect(q_full, (FEW ? a.q.s * group : ROWS) * D * 2);
      bring_rows<D, ROWS>(q, &args.q, q_full, h, i0, b);
      auto bring_tile = [&](uint32_t to, const TensorMap* map, uint32_t full, uint32_t freed, int t) {
        int stage = t & 1;
        if (t >= 2) await(freed + stage * 8, (t >> 1) - 1);
        expect(full + stage * 8, TILE);
        bring_rows<D, KEYS>(to + stage * TILE, map, full + stage * 8, kh, t * KEYS, b);
      };
      for (int t = 0; t <= tiles; t++) {
        if (t < tiles) bring_tile(k, &args.k, k_full, k_free, t);
        if (t > 0) bring_tile(v, &args.v, v_full, v_free, t - 1);
      }
    }
  } else {
    if constexpr (GROUPS > 1) take_registers<Roles<GROUPS>::TAKE>();
    int w = crew(), row = i0 + w * 64 + crew_warp() + fragment_row(0);
    int seen0 = seen_by(a, n, FEW ? row / group : row), seen1 = seen_by(a, n, FEW ? (row + 8) / group : row + 8), least = seen_by(a, n, i0 + w * 64);
    float o[D / 8][4] = {}, m[2] = {-inf(), -inf()}, l[2] = {}, rescale[2];
    if (tiles > 0) {
      float s[KEYS / 8][4];
      uint32_t p[KEYS / 16][4];
      await(q_full, 0);
      await(k_full, 0);
      own_times_rows<D, ROWS, KEYS>(s, q, w * 64, k);
      pending<0>(), arrived(s);
      released(k_free);
      soften<KEYS>(s, seen0, seen1, KEYS > least, a.c, m, l, rescale);
      pack_weights<KEYS>(p, s);
      if (GROUPS > 1 && w == GROUPS - 1 && tiles > 1) come(1, 256);  // the token starts at the first of them
      for (int t = 1; t < tiles; t++) {
        int stage = t & 1, last = stage ^ 1;
        await(k_full + stage * 8, t >> 1);
        if (GROUPS > 1) meet(1 + w, 256);
        own_times_rows<D, ROWS, KEYS>(s, q, w * 64, k + stage * TILE);
        await(v_full + last * 8, (t - 1) >> 1);
        held_times_columns<D, KEYS>(o, p, v + last * TILE);
        if (GROUPS > 1 && (w < GROUPS - 1 || t < tiles - 1)) come(1 + (w + 1) % GROUPS, 256);
        pending<1>(), arrived(s);
        released(k_free + stage * 8);
        soften<KEYS>(s, seen0 - t * KEYS, seen1 - t * KEYS, (t + 1) * KEYS > least, a.c, m, l, rescale);
        before(l[0]), before(l[1]);
        pending<0>(), arrived(o);
        released(v_free + last * 8);
        pack_weights<KEYS>(p, s);
        UNROLL for (int d = 0; d < D / 8; d++)
          UNROLL for (int e = 0; e < 4; e++) o[d][e] = mul(o[d][e], rescale[e >> 1]);
      }
      int t = tiles - 1, stage = t & 1;
      await(v_full + stage * 8, t >> 1);
      // What lies beyond a sample's keys may be anything, and 0 times NaN is NaN.
      if (n < a.k.s && n < tiles * KEYS) clear_rows<D, KEYS, ROWS * 2>(v + stage * TILE, n - t * KEYS, threadIdx.x - 128, 1 + GROUPS);
      held_times_columns<D, KEYS>(o, p, v + stage * TILE);
      pending<0>(), arrived(o);
    }
    row = i0 + thread_anew() / 128 * 64 - 64 + crew_warp() + fragment_row(0);
    UNROLL for (int r = 0; r < 2; r++) {
      l[r] = add(l[r], __shfl_xor_sync(ALL, l[r], 1));
      l[r] = add(l[r], __shfl_xor_sync(ALL, l[r], 2));
      if (!(m[r] < inf())) l[r] = from_bits(0x7fc00000u);  // a score was NaN or infinite
    }
    UNROLL for (int r = 0; r < 2; r++) {
      int i = row + 8 * r, head_of = h;
      if (FEW) head_of += i % group, i /= group;
      if (i >= a.q.s) continue;
      if ((threadIdx.x & 3) == 0 && a.lse) a.lse[((i64)b * a.q.h + head_of) * a.q.s + i] = l[r] != 0 ? fma_(log_(l[r]), LOG2E, m[r]) : -inf();
      keep_row<D>(a.o, head(a.o, b, i, head_of), r, true, o, l[r] != 0 ? quotient(1, l[r]) : 0);
    }
  }
}
KERNEL_ALONE(hopper_attention_few_64, HopperArgs, Roles<1>::THREADS) { hopper_forward<64, 1, true>(a); }
KERNEL_ALONE(hopper_attention_few_128, HopperArgs, Roles<1>::THREADS) { hopper_forward<128, 1, true>(a); }
KERNEL_ALONE(hopper_attention_two_64, HopperArgs, Roles<2>::THREADS) { hopper_forward<64, 2>(a); }
KERNEL_ALONE(hopper_attention_64, HopperArgs, Roles<3>::THREADS) { hopper_forward<64, 3>(a); }
KERNEL_ALONE(hopper_attention_128, HopperArgs, Roles<2>::THREADS) { hopper_forward<128, 2>(a); }

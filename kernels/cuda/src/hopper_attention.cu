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
// nothing is split over keys. So a query's bits depend on its row and place and on its
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

// A block goes through pieces of work: so many queries of a head, over all keys that they see. FEW: one warpgroup has all
// queries of the heads that share keys, query by query, where these are no more than 64 rows (a token's attention, say).
template <int ROWS, bool FEW> struct Work {
  int b, h, kh, group, i0, n, tiles;  // h: the first head
  static MEMBER int count(const AttentionArgs& a) { return FEW ? a.q.b * a.k.h : (a.q.s + ROWS - 1) / ROWS * a.q.b * a.q.h; }
  MEMBER Work(const AttentionArgs& a, int piece) {
    int blocks = FEW ? 1 : (a.q.s + ROWS - 1) / ROWS, head = piece / (blocks * a.q.b), of = piece % blocks;
    group = a.q.h / a.k.h, b = piece / blocks % a.q.b, kh = FEW ? head : head / group, h = FEW ? head * group : head;
    i0 = (a.causal ? blocks - 1 - of : of) * ROWS;  // the longest first
    n = keys_of(a, b), tiles = (seen_by(a, n, (i0 + ROWS < a.q.s ? i0 + ROWS : a.q.s) - 1) + KEYS - 1) / KEYS;
  }
};

template <int D, int GROUPS, bool FEW = false> DEV void hopper_forward(const HopperArgs& args) {
  const AttentionArgs& a = args.a;
  const int ROWS = 64 * GROUPS, TILE = KEYS * D * 2;
  typedef Work<ROWS, FEW> Piece;
  uint32_t q = tiles_start(), k = q + ROWS * D * 2, v = k + 2 * TILE, bars = v + 2 * TILE;
  uint32_t q_full = bars, k_full = bars + 8, v_full = bars + 24, k_free = bars + 40, v_free = bars + 56, q_free = bars + 72;  // two stages each
  if (threadIdx.x == 0) {
    barrier_begin(q_full, 1), barrier_begin(q_free, 4 * GROUPS);
    for (int i = 0; i < 16; i += 8) {
      barrier_begin(k_full + i, 1), barrier_begin(v_full + i, 1);
      barrier_begin(k_free + i, 4 * GROUPS), barrier_begin(v_free + i, 4 * GROUPS);
    }
    barriers_begun();
  }
  __syncthreads();
  // past, turn: how many tiles, and pieces that have any, the block has gone through.
  if (crew() < 0) {
    if constexpr (GROUPS > 1) give_registers<Roles<GROUPS>::GIVE>();
    if (threadIdx.x == 0) ROLLED for (int piece = blockIdx.x, past = 0, turn = 0; piece < Piece::count(a); piece += gridDim.x) {
      Piece x(a, piece);
      if (x.tiles == 0) continue;
      if (turn > 0) await(q_free, turn - 1);
      expect(q_full, (FEW ? a.q.s * x.group : ROWS) * D * 2);
      bring_rows<D, ROWS>(q, &args.q, q_full, x.h, x.i0, x.b);
      auto bring_tile = [&](uint32_t to, const TensorMap* map, uint32_t full, uint32_t freed, int t) {
        int all = past + t, stage = all & 1;
        if (all >= 2) await(freed + stage * 8, (all >> 1) - 1);
        expect(full + stage * 8, TILE);
        bring_rows<D, KEYS>(to + stage * TILE, map, full + stage * 8, x.kh, t * KEYS, x.b);
      };
      ROLLED for (int t = 0; t <= x.tiles; t++) {
        if (t < x.tiles) bring_tile(k, &args.k, k_full, k_free, t);
        if (t > 0) bring_tile(v, &args.v, v_full, v_free, t - 1);
      }
      past += x.tiles, turn++;
    }
  } else {
    if constexpr (GROUPS > 1) take_registers<Roles<GROUPS>::TAKE>();
    ROLLED for (int piece = blockIdx.x, past = 0, turn = 0; piece < Piece::count(a); piece += gridDim.x) {
      Piece x(a, piece);
      int w = crew(), n = x.n, tiles = x.tiles, row = x.i0 + w * 64 + crew_warp() + fragment_row(0);
      int seen0 = seen_by(a, n, FEW ? row / x.group : row), seen1 = seen_by(a, n, FEW ? (row + 8) / x.group : row + 8), least = seen_by(a, n, x.i0 + w * 64);
      float o[D / 8][4] = {}, m[2] = {-inf(), -inf()}, l[2] = {}, rescale[2];
      if (tiles > 0) {
        float s[KEYS / 8][4];
        uint32_t p[KEYS / 16][4];
        int stage = past & 1;
        await(q_full, turn++);
        await(k_full + stage * 8, past >> 1);
        own_times_rows<D, ROWS, KEYS>(s, q, w * 64, k + stage * TILE);
        pending<0>(), arrived(s);
        released(k_free + stage * 8);
        if (tiles == 1) released(q_free);
        soften<KEYS>(s, seen0, seen1, KEYS > least, a.c, m, l, rescale);
        pack_weights<KEYS>(p, s);
        if (GROUPS > 1 && w == GROUPS - 1 && tiles > 1) come(1, 256);  // the token starts at the first of them
        ROLLED for (int t = 1; t < tiles; t++) {
          int stage = (past + t) & 1, last = stage ^ 1;
          await(k_full + stage * 8, (past + t) >> 1);
          if (GROUPS > 1) meet(1 + w, 256);
          own_times_rows<D, ROWS, KEYS>(s, q, w * 64, k + stage * TILE);
          await(v_full + last * 8, (past + t - 1) >> 1);
          held_times_columns<D, KEYS>(o, p, v + last * TILE);
          if (GROUPS > 1 && (w < GROUPS - 1 || t < tiles - 1)) come(1 + (w + 1) % GROUPS, 256);
          pending<1>(), arrived(s);
          released(k_free + stage * 8);
          if (t == tiles - 1) released(q_free);
          soften<KEYS>(s, seen0 - t * KEYS, seen1 - t * KEYS, (t + 1) * KEYS > least, a.c, m, l, rescale);
          before(l[0]), before(l[1]);
          pending<0>(), arrived(o);
          released(v_free + last * 8);
          pack_weights<KEYS>(p, s);
          UNROLL for (int d = 0; d < D / 8; d++)
            UNROLL for (int e = 0; e < 4; e++) o[d][e] = mul(o[d][e], rescale[e >> 1]);
        }
        past += tiles, stage = (past - 1) & 1;
        await(v_full + stage * 8, (past - 1) >> 1);
        // What lies beyond a sample's keys may be anything, and 0 times NaN is NaN.
        if (n < a.k.s && n < tiles * KEYS) clear_rows<D, KEYS, ROWS * 2>(v + stage * TILE, n - (tiles - 1) * KEYS, threadIdx.x - 128, 1 + GROUPS);
        held_times_columns<D, KEYS>(o, p, v + stage * TILE);
        pending<0>(), arrived(o);
        released(v_free + stage * 8);
      }
      row = x.i0 + thread_anew() / 128 * 64 - 64 + crew_warp() + fragment_row(0);
      UNROLL for (int r = 0; r < 2; r++) {
        l[r] = add(l[r], __shfl_xor_sync(ALL, l[r], 1));
        l[r] = add(l[r], __shfl_xor_sync(ALL, l[r], 2));
        if (!(m[r] < inf())) l[r] = from_bits(0x7fc00000u);  // a score was NaN or infinite
      }
      UNROLL for (int r = 0; r < 2; r++) {
        int i = row + 8 * r, h = x.h;
        if (FEW) h += i % x.group, i /= x.group;
        if (i >= a.q.s) continue;
        if ((threadIdx.x & 3) == 0 && a.lse) a.lse[((i64)x.b * a.q.h + h) * a.q.s + i] = l[r] != 0 ? fma_(log_(l[r]), LOG2E, m[r]) : -inf();
        keep_row<D>(a.o, head(a.o, x.b, i, h), r, true, o, l[r] != 0 ? quotient(1, l[r]) : 0);
      }
    }
  }
}
KERNEL_ALONE(hopper_attention_few_64, HopperArgs, Roles<1>::THREADS) { hopper_forward<64, 1, true>(a); }
KERNEL_ALONE(hopper_attention_few_128, HopperArgs, Roles<1>::THREADS) { hopper_forward<128, 1, true>(a); }
KERNEL_ALONE(hopper_attention_two_64, HopperArgs, Roles<2>::THREADS) { hopper_forward<64, 2>(a); }
KERNEL_ALONE(hopper_attention_64, HopperArgs, Roles<3>::THREADS) { hopper_forward<64, 3>(a); }
KERNEL_ALONE(hopper_attention_128, HopperArgs, Roles<2>::THREADS) { hopper_forward<128, 2>(a); }

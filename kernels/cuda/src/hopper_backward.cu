// hopper_backward.cu: the two passes of attention's backward by wgmma, as tensor_attention.cu has them: one over
// queries for dQ, one over keys for dK and dV; Delta is attention.cu's. Each forms scores and dP again
// (seven products where FlashAttention's one pass has five), so that no sum is anybody else's: no
// atomics, one order.
//
//   P = exp2(c·S - lse)    dS = P (dP - delta)    dQ = dS K·scale    dK = dSᵀ Q·scale    dV = Pᵀ dO
//
// Two warpgroups have 64 rows each, a third warp-specialised one brings the others' tiles, two stages of them.
// The last products of a tile run on while the next tile's scores are formed, and their stage is freed then.
#include "hopper_tiles.h"

// How many others a tile has: what registers have room for.
template <int D> struct Others { static const int N = D == 64 ? 128 : 64; };

template <int D> DEV void hopper_queries(const HopperArgs& args) {
  const AttentionArgs& a = args.a;
  const int ROWS = 128, N = Others<D>::N, TILE = N * D * 2, OWN_BYTES = ROWS * D * 2;
  int blocks = (a.q.s + ROWS - 1) / ROWS, h = (int)blockIdx.y, b = (int)(blockIdx.x / blocks);
  int i0 = (a.causal ? blocks - 1 - (int)(blockIdx.x % blocks) : (int)(blockIdx.x % blocks)) * ROWS;
  int n = keys_of(a, b), tiles = (seen_by(a, n, (i0 + ROWS < a.q.s ? i0 + ROWS : a.q.s) - 1) + N - 1) / N;
  uint32_t q = tiles_start(), g = q + OWN_BYTES, stages = g + OWN_BYTES, bars = stages + 4 * TILE;  // a stage: keys, then values
  uint32_t own_full = bars, full = bars + 8, freed = bars + 24;
  if (threadIdx.x == 0) {
    barrier_begin(own_full, 1);
    for (int i = 0; i < 16; i += 8) barrier_begin(full + i, 1), barrier_begin(freed + i, 8);
    barriers_begun();
  }
  __syncthreads();
  if (crew() < 0) {
    give_registers<Roles<2>::GIVE>();
    if (threadIdx.x == 0 && tiles > 0) {
      int kh = h / (a.q.h / a.k.h);
      expect(own_full, 2 * OWN_BYTES);
      bring_rows<D, ROWS>(q, &args.q, own_full, h, i0, b);
      bring_rows<D, ROWS>(g, &args.dout, own_full, h, i0, b);
      for (int t = 0; t < tiles; t++) {
        int stage = t & 1;
        if (t >= 2) await(freed + stage * 8, (t >> 1) - 1);
        expect(full + stage * 8, 2 * TILE);
        bring_rows<D, N>(stages + stage * 2 * TILE, &args.k, full + stage * 8, kh, t * N, b);
        bring_rows<D, N>(stages + stage * 2 * TILE + TILE, &args.v, full + stage * 8, kh, t * N, b);
      }
    }
  } else {
    take_registers<Roles<2>::TAKE>();
    int w = crew(), row = i0 + w * 64 + crew_warp() + fragment_row(0), seen[2], least = seen_by(a, n, i0 + w * 64);
    float o[D / 8][4] = {}, lse[2], delta[2];
    UNROLL for (int r = 0; r < 2; r++) {
      int i = row + 8 * r;
      i64 u = ((i64)b * a.q.h + h) * a.q.s + i;
      lse[r] = i < a.q.s ? a.lse[u] : inf(), delta[r] = i < a.q.s ? a.delta[u] : 0;
      seen[r] = seen_by(a, n, i);
      if (lse[r] == -inf()) lse[r] = inf();  // a query without keys: weights of 0
    }
    if (tiles > 0) {
      float s[N / 8][4], dp[N / 8][4];
      uint32_t ds[N / 16][4];
      await(own_full, 0);
      for (int t = 0; t < tiles; t++) {
        uint32_t stage = t & 1, k = stages + stage * 2 * TILE;
        await(full + stage * 8, t >> 1);
        if (n < a.k.s && n < (t + 1) * N) clear_rows<D, N, 256>(k, n - t * N, threadIdx.x - 128, 1);  // 0 times NaN
        own_times_rows<D, ROWS, N>(s, q, w * 64, k);
        own_times_rows<D, ROWS, N>(dp, g, w * 64, k + TILE);
        pending<1>(), arrived(s), arrived(o);
        if (t > 0) released(freed + (stage ^ 1) * 8);
        UNROLL for (int j = 0; j < N / 8; j++)
          UNROLL for (int e = 0; e < 4; e++) s[j][e] = exp2_unit(fma_(s[j][e], a.c, -lse[e >> 1]));
        bool edge = (t + 1) * N > least;
        if (edge) UNROLL for (int j = 0; j < N / 8; j++)
          UNROLL for (int e = 0; e < 4; e++) s[j][e] = t * N + fragment_col(j, e) < seen[e >> 1] ? s[j][e] : 0;
        pending<0>(), arrived(dp);
        UNROLL for (int j = 0; j < N / 8; j++)
          UNROLL for (int e = 0; e < 4; e++) dp[j][e] = mul(s[j][e], sub(dp[j][e], delta[e >> 1]));
        if (edge) UNROLL for (int j = 0; j < N / 8; j++)
          UNROLL for (int e = 0; e < 4; e++) dp[j][e] = t * N + fragment_col(j, e) < seen[e >> 1] ? dp[j][e] : 0;
        pack_weights<N>(ds, dp);
        held_times_columns<D, N>(o, ds, k);
      }
      pending<0>(), arrived(o);
    }
    const float scale[2] = {a.scale, a.scale};
    keep_rows<D>(a.dq, b, h, row, a.q.s, a.q.s, o, scale);
  }
}
KERNEL_ALONE(hopper_attention_queries_64, HopperArgs, Roles<2>::THREADS) { hopper_queries<64>(a); }
KERNEL_ALONE(hopper_attention_queries_128, HopperArgs, Roles<2>::THREADS) { hopper_queries<128>(a); }

// The keys' pass: rows are keys, and a tile is queries and their dO; a second warp brings
// log-sum-exps and deltas. The query heads of a group are added as they come, in order. A query without keys, or
// beyond the last, has +Inf for a log-sum-exp: weights of 0.
template <int D> DEV void hopper_keys(const HopperArgs& args) {
  const AttentionArgs& a = args.a;
  const int ROWS = 128, N = 64, TILE = N * D * 2, OWN_BYTES = ROWS * D * 2;
  int blocks = (a.k.s + ROWS - 1) / ROWS, j0 = (int)(blockIdx.x % blocks) * ROWS, kh = (int)blockIdx.y, b = (int)(blockIdx.x / blocks);
  int group = a.q.h / a.k.h, n = keys_of(a, b), shift = a.k.s - a.q.s;  // key j is seen from query j - shift on
  int first = a.causal && j0 - shift > 0 ? (j0 - shift) / N : 0, across = (a.q.s + N - 1) / N - first;
  int tiles = j0 < n && across > 0 ? group * across : 0;
  uint32_t k = tiles_start(), v = k + OWN_BYTES, stages = v + OWN_BYTES, numbers = stages + 4 * TILE, bars = numbers + 4 * N * 4;
  uint32_t own_full = bars, full = bars + 8, freed = bars + 24;
  SHARED(unsigned char, all);
  float* statistics = (float*)(all + (numbers - shared_address(all)));  // a stage: N log-sum-exps, N deltas
  if (threadIdx.x == 0) {
    barrier_begin(own_full, 1);
    for (int i = 0; i < 16; i += 8) barrier_begin(full + i, 33), barrier_begin(freed + i, 8);
    barriers_begun();
  }
  __syncthreads();
  if (crew() < 0) {
    give_registers<Roles<2>::GIVE>();
    auto each_tile = [&](auto bring_tile) {
      for (int t = 0, h = kh * group, i0 = first * N; t < tiles; t++) {
        if (t >= 2) await(freed + (t & 1) * 8, (t >> 1) - 1);
        bring_tile(t & 1, h, i0);
        if ((i0 += N) >= a.q.s) i0 = first * N, h++;
      }
    };
    if (threadIdx.x == 0 && tiles > 0) {
      expect(own_full, 2 * OWN_BYTES);
      bring_rows<D, ROWS>(k, &args.k, own_full, kh, j0, b);
      bring_rows<D, ROWS>(v, &args.v, own_full, kh, j0, b);
      each_tile([&](int stage, int h, int i0) {
        expect(full + stage * 8, 2 * TILE);
        bring_rows<D, N>(stages + stage * 2 * TILE, &args.q, full + stage * 8, h, i0, b);
        bring_rows<D, N>(stages + stage * 2 * TILE + TILE, &args.dout, full + stage * 8, h, i0, b);
      });
    } else if (threadIdx.x / 32 == 1) {
      each_tile([&](int stage, int h, int i0) {
        for (int e = threadIdx.x & 31; e < N; e += 32) {
          i64 u = ((i64)b * a.q.h + h) * a.q.s + i0 + e;
          float lse = i0 + e < a.q.s ? a.lse[u] : inf();
          statistics[stage * 2 * N + e] = lse == -inf() ? inf() : lse;
          statistics[stage * 2 * N + N + e] = i0 + e < a.q.s ? a.delta[u] : 0;
        }
        arrive(full + stage * 8);
      });
    }
  } else {
    take_registers<Roles<2>::TAKE>();
    int w = crew(), row0 = j0 + w * 64, row = row0 + crew_warp() + fragment_row(0);
    float dk[D / 8][4] = {}, dv[D / 8][4] = {};
    if (tiles > 0) {
      float s[N / 8][4], dp[N / 8][4];
      uint32_t p[N / 16][4], ds[N / 16][4];
      await(own_full, 0);
      for (int t = 0; t < tiles; t++) {
        uint32_t stage = t & 1, q = stages + stage * 2 * TILE;
        int i0 = (first + t % across) * N + shift;  // the last key that the tile's first query sees
        const float *lse = statistics + stage * 2 * N, *delta = lse + N;
        await(full + stage * 8, t >> 1);
        own_times_rows<D, ROWS, N>(s, k, w * 64, q);
        own_times_rows<D, ROWS, N>(dp, v, w * 64, q + TILE);
        pending<1>(), arrived(s), arrived(dk);
        if (t > 0) released(freed + (stage ^ 1) * 8);
        UNROLL for (int j = 0; j < N / 8; j++)
          UNROLL for (int e = 0; e < 4; e++) s[j][e] = exp2_unit(fma_(s[j][e], a.c, -lse[fragment_col(j, e)]));
        bool edge = a.causal && i0 < row0 + 63;
        if (edge) UNROLL for (int j = 0; j < N / 8; j++)
          UNROLL for (int e = 0; e < 4; e++) s[j][e] = row + (e >> 1) * 8 <= i0 + fragment_col(j, e) ? s[j][e] : 0;
        pending<0>(), arrived(dp);
        pack_weights<N>(p, s);
        held_times_columns<D, N>(dv, p, q + TILE);
        UNROLL for (int j = 0; j < N / 8; j++)
          UNROLL for (int e = 0; e < 4; e++) dp[j][e] = mul(s[j][e], sub(dp[j][e], delta[fragment_col(j, e)]));
        if (edge) UNROLL for (int j = 0; j < N / 8; j++)
          UNROLL for (int e = 0; e < 4; e++) dp[j][e] = row + (e >> 1) * 8 <= i0 + fragment_col(j, e) ? dp[j][e] : 0;
        pending<0>(), arrived(dv);
        pack_weights<N>(ds, dp);  // not before: what products read may not be written while others run
        held_times_columns<D, N>(dk, ds, q);
      }
      pending<0>(), arrived(dk);
    }
    const float scale[2] = {a.scale, a.scale};
    keep_rows<D>(a.dk, b, kh, row, a.k.s, n, dk, scale);
    keep_rows<D>(a.dv, b, kh, row, a.k.s, n, dv, nullptr);
  }
}
KERNEL_ALONE(hopper_attention_keys_64, HopperArgs, Roles<2>::THREADS) { hopper_keys<64>(a); }
KERNEL_ALONE(hopper_attention_keys_128, HopperArgs, Roles<2>::THREADS) { hopper_keys<128>(a); }

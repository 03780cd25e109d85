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
template <int D> struct Others { static const int N = D == 64 ? 128 : 96; };

// A block goes through pieces of work, each 128 queries of a head.
template <int N> struct QueriesPiece {
  int b, h, i0, n, tiles;
  static MEMBER int count(const AttentionArgs& a) { return (a.q.s + 127) / 128 * a.q.b * a.q.h; }
  MEMBER QueriesPiece(const AttentionArgs& a, int piece) {
    int blocks = (a.q.s + 127) / 128, of = piece % blocks;
    h = piece / (blocks * a.q.b), b = piece / blocks % a.q.b, i0 = (a.causal ? blocks - 1 - of : of) * 128;  // the longest first
    n = keys_of(a, b), tiles = (seen_by(a, n, (i0 + 128 < a.q.s ? i0 + 128 : a.q.s) - 1) + N - 1) / N;
  }
};

template <int D> DEV void hopper_queries(const HopperArgs& args) {
  const AttentionArgs& a = args.a;
  const int ROWS = 128, N = Others<D>::N, TILE = N * D * 2, OWN_BYTES = ROWS * D * 2;
  typedef QueriesPiece<N> Piece;
  uint32_t q = tiles_start(), g = q + OWN_BYTES, stages = g + OWN_BYTES, bars = stages + 4 * TILE;  // a stage: keys, then values
  uint32_t own_full = bars, full = bars + 8, freed = bars + 24, own_free = bars + 40;
  if (threadIdx.x == 0) {
    barrier_begin(own_full, 1), barrier_begin(own_free, 8);
    for (int i = 0; i < 16; i += 8) barrier_begin(full + i, 1), barrier_begin(freed + i, 8);
    barriers_begun();
  }
  __syncthreads();
  // past, turn: how many tiles, and pieces that have any, the block has gone through.
  if (crew() < 0) {
    give_registers<Roles<2>::GIVE>();
    if (threadIdx.x == 0) ROLLED for (int piece = blockIdx.x, past = 0, turn = 0; piece < Piece::count(a); piece += gridDim.x) {
      Piece x(a, piece);
      if (x.tiles == 0) continue;
      int kh = x.h / (a.q.h / a.k.h);
      if (turn > 0) await(own_free, turn - 1);
      expect(own_full, 2 * OWN_BYTES);
      bring_rows<D, ROWS>(q, &args.q, own_full, x.h, x.i0, x.b);
      bring_rows<D, ROWS>(g, &args.dout, own_full, x.h, x.i0, x.b);
      ROLLED for (int t = 0; t < x.tiles; t++, past++) {
        int stage = past & 1;
        if (past >= 2) await(freed + stage * 8, (past >> 1) - 1);
        expect(full + stage * 8, 2 * TILE);
        bring_rows<D, N>(stages + stage * 2 * TILE, &args.k, full + stage * 8, kh, t * N, x.b);
        bring_rows<D, N>(stages + stage * 2 * TILE + TILE, &args.v, full + stage * 8, kh, t * N, x.b);
      }
      turn++;
    }
  } else {
    take_registers<Roles<2>::TAKE>();
    ROLLED for (int piece = blockIdx.x, past = 0, turn = 0; piece < Piece::count(a); piece += gridDim.x) {
      Piece x(a, piece);
      int w = crew(), n = x.n, row = x.i0 + w * 64 + crew_warp() + fragment_row(0), seen[2], least = seen_by(a, n, x.i0 + w * 64);
      float o[D / 8][4] = {}, lse[2], delta[2];
      UNROLL for (int r = 0; r < 2; r++) {
        int i = row + 8 * r;
        i64 u = ((i64)x.b * a.q.h + x.h) * a.q.s + i;
        lse[r] = i < a.q.s ? a.lse[u] : inf(), delta[r] = i < a.q.s ? a.delta[u] : 0;
        seen[r] = seen_by(a, n, i);
        if (lse[r] == -inf()) lse[r] = inf();  // a query without keys: weights of 0
      }
      if (x.tiles > 0) {
        float s[N / 8][4], dp[N / 8][4];
        uint32_t ds[N / 16][4];
        await(own_full, turn++);
        ROLLED for (int t = 0; t < x.tiles; t++, past++) {
          uint32_t stage = past & 1, k = stages + stage * 2 * TILE;
          await(full + stage * 8, past >> 1);
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
          if (t == x.tiles - 1) released(own_free);
          UNROLL for (int j = 0; j < N / 8; j++)
            UNROLL for (int e = 0; e < 4; e++) dp[j][e] = mul(s[j][e], sub(dp[j][e], delta[e >> 1]));
          if (edge) UNROLL for (int j = 0; j < N / 8; j++)
            UNROLL for (int e = 0; e < 4; e++) dp[j][e] = t * N + fragment_col(j, e) < seen[e >> 1] ? dp[j][e] : 0;
          pack_weights<N>(ds, dp);
          held_times_columns<D, N>(o, ds, k);
        }
        pending<0>(), arrived(o);
        released(freed + ((past - 1) & 1) * 8);
      }
      const float scale[2] = {a.scale, a.scale};
      keep_rows<D>(a.dq, x.b, x.h, row, a.q.s, a.q.s, o, scale);
    }
  }
}
KERNEL_ALONE(hopper_attention_queries_64, HopperArgs, Roles<2>::THREADS) { hopper_queries<64>(a); }
KERNEL_ALONE(hopper_attention_queries_128, HopperArgs, Roles<2>::THREADS) { hopper_queries<128>(a); }

// The keys' pass: rows are keys, and a tile is queries and their dO; a second warp brings
// log-sum-exps and deltas. The query heads of a group are added as they come, in order. A query without keys, or
// beyond the last, has +Inf for a log-sum-exp: weights of 0. A piece is 128 keys of a head.
template <int N> struct KeysPiece {
  int b, kh, j0, n, first, across, tiles;
  static MEMBER int count(const AttentionArgs& a) { return (a.k.s + 127) / 128 * a.k.b * a.k.h; }
  MEMBER KeysPiece(const AttentionArgs& a, int piece) {
    int blocks = (a.k.s + 127) / 128, before = a.k.s - a.q.s;  // key j is seen from query j - before on
    j0 = piece % blocks * 128, kh = piece / (blocks * a.k.b), b = piece / blocks % a.k.b, n = keys_of(a, b);
    first = a.causal && j0 - before > 0 ? (j0 - before) / N : 0, across = (a.q.s + N - 1) / N - first;
    tiles = j0 < n && across > 0 ? a.q.h / a.k.h * across : 0;
  }
};

// A tile has N queries. Tiles of 96 read less for each product, and take a division where others shift.
template <int D, int N> DEV void hopper_keys(const HopperArgs& args) {
  const AttentionArgs& a = args.a;
  const int ROWS = 128, GIVE = N == 96 ? 40 : 24, TAKE = N == 96 ? 232 : 240, TILE = N * D * 2, OWN_BYTES = ROWS * D * 2;
  typedef KeysPiece<N> Piece;
  uint32_t k = tiles_start(), v = k + OWN_BYTES, stages = v + OWN_BYTES, numbers = stages + 4 * TILE, bars = numbers + 4 * N * 4;
  uint32_t own_full = bars, full = bars + 8, freed = bars + 24, own_free = bars + 40;
  SHARED(unsigned char, all);
  float* statistics = (float*)(all + (numbers - shared_address(all)));  // a stage: N log-sum-exps, N deltas
  if (threadIdx.x == 0) {
    barrier_begin(own_full, 1), barrier_begin(own_free, 8);
    for (int i = 0; i < 16; i += 8) barrier_begin(full + i, 33), barrier_begin(freed + i, 8);
    barriers_begun();
  }
  __syncthreads();
  if (crew() < 0) {
    give_registers<GIVE>();
    auto each_tile = [&](auto begin, auto bring_tile) {
      ROLLED for (int piece = blockIdx.x, past = 0, turn = 0; piece < Piece::count(a); piece += gridDim.x) {
        Piece x(a, piece);
        if (x.tiles == 0) continue;
        begin(x, turn++);
        ROLLED for (int h = x.kh * (a.q.h / a.k.h), end = h + a.q.h / a.k.h; h < end; h++)
          ROLLED for (int i0 = x.first * N; i0 < a.q.s; i0 += N, past++) {
            if (past >= 2) await(freed + (past & 1) * 8, (past >> 1) - 1);
            bring_tile(past & 1, x.b, h, i0);
          }
      }
    };
    if (threadIdx.x == 0) {
      each_tile([&](const Piece& x, int turn) {
        if (turn > 0) await(own_free, turn - 1);
        expect(own_full, 2 * OWN_BYTES);
        bring_rows<D, ROWS>(k, &args.k, own_full, x.kh, x.j0, x.b);
        bring_rows<D, ROWS>(v, &args.v, own_full, x.kh, x.j0, x.b);
      }, [&](int stage, int b, int h, int i0) {
        expect(full + stage * 8, 2 * TILE);
        bring_rows<D, N>(stages + stage * 2 * TILE, &args.q, full + stage * 8, h, i0, b);
        bring_rows<D, N>(stages + stage * 2 * TILE + TILE, &args.dout, full + stage * 8, h, i0, b);
      });
    } else if (threadIdx.x / 32 == 1) {
      each_tile([&](const Piece&, int) {}, [&](int stage, int b, int h, int i0) {
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
    take_registers<TAKE>();
    ROLLED for (int piece = blockIdx.x, past = 0, turn = 0; piece < Piece::count(a); piece += gridDim.x) {
      Piece x(a, piece);
      int w = crew(), row0 = x.j0 + w * 64, row = row0 + crew_warp() + fragment_row(0);
      float dk[D / 8][4] = {}, dv[D / 8][4] = {};
      if (x.tiles > 0) {
        float s[N / 8][4], dp[N / 8][4];
        uint32_t p[N / 16][4], ds[N / 16][4];
        await(own_full, turn++);
        int begin = x.first * N + a.k.s - a.q.s, end = begin + x.across * N;  // the last key that a tile's first query sees
        ROLLED for (int t = 0, i0 = begin; t < x.tiles; t++, past++) {
          uint32_t stage = past & 1, q = stages + stage * 2 * TILE;
          const float *lse = statistics + stage * 2 * N, *delta = lse + N;
          await(full + stage * 8, past >> 1);
          own_times_rows<D, ROWS, N>(s, k, w * 64, q);
          own_times_rows<D, ROWS, N>(dp, v, w * 64, q + TILE);
          pending<1>(), arrived(s), arrived(dk);
          if (t > 0) released_by_lanes(freed + (stage ^ 1) * 8);
          UNROLL for (int j = 0; j < N / 8; j++)
            UNROLL for (int e = 0; e < 4; e++) s[j][e] = exp2_unit(fma_(s[j][e], a.c, -lse[fragment_col(j, e)]));
          bool edge = a.causal && i0 < row0 + 63;
          if (edge) UNROLL for (int j = 0; j < N / 8; j++)
            UNROLL for (int e = 0; e < 4; e++) s[j][e] = row + (e >> 1) * 8 <= i0 + fragment_col(j, e) ? s[j][e] : 0;
          pending<0>(), arrived(dp);
          if (t == x.tiles - 1) released(own_free);
          pack_weights<N>(p, s);
          held_times_columns<D, N>(dv, p, q + TILE);
          UNROLL for (int j = 0; j < N / 8; j++)
            UNROLL for (int e = 0; e < 4; e++) dp[j][e] = mul(s[j][e], sub(dp[j][e], delta[fragment_col(j, e)]));
          if (edge) UNROLL for (int j = 0; j < N / 8; j++)
            UNROLL for (int e = 0; e < 4; e++) dp[j][e] = row + (e >> 1) * 8 <= i0 + fragment_col(j, e) ? dp[j][e] : 0;
          pending<0>(), arrived(dv);
          pack_weights<N>(ds, dp);  // not before: what products read may not be written while others run
          held_times_columns<D, N>(dk, ds, q);
          if ((i0 += N) >= end) i0 = begin;
        }
        pending<0>(), arrived(dk);
        released_by_lanes(freed + ((past - 1) & 1) * 8);
      }
      const float scale[2] = {a.scale, a.scale};
      keep_rows<D>(a.dk, x.b, x.kh, row, a.k.s, x.n, dk, scale);
      keep_rows<D>(a.dv, x.b, x.kh, row, a.k.s, x.n, dv, nullptr);
    }
  }
}
KERNEL_ALONE(hopper_attention_keys_64, HopperArgs, Roles<2>::THREADS) { hopper_keys<64, 64>(a); }
KERNEL_ALONE(hopper_attention_keys_128, HopperArgs, Roles<2>::THREADS) { hopper_keys<128, 64>(a); }
KERNEL_ALONE(hopper_attention_keys_wide_64, HopperArgs, Roles<2>::THREADS) { hopper_keys<64, 96>(a); }

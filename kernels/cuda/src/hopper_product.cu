// hopper_product.cu: products of bf16 by wgmma: C = epilogue(alpha · A·B), where A lies along k, and B along k
// (NT) or across (NN). Terms are exact and sums fp32; the epilogue is finish's (product.h), with its bits but for
// activations with a gate, which are near (hopper_activation.h).
//
// The algorithm is the warp-specialised one of CUTLASS (sm90, cooperative) and of pranjalssh/fast.cu (matmul_7): one
// thread brings slices of 64 of k to a ring of stages, a warpgroup for every 64 rows of a tile multiplies them, and
// a block goes from tile to tile, so that the next tile's slices come while this one's sums go through the epilogue.
// Tiles are gone through so that those computed at a time share rows and columns in the second cache.
//
// What differs: every tile adds the same 16 of k at a time to one sum, in ascending order, nothing is split over k,
// and which products come here is no function of the number of rows (hopperproduct.go): so the choice of a tile changes
// no bit, and a row has the same bits alone and in any batch. The epilogue is the whole of Gemm's, and goes through shared
// memory by warps: a row's results leave in pieces of four neighbours, and what is read beside them comes the same way.
//
// A pair (kernels.Pair: the low-rank product of an adapter) has its slices before the others, in the same sum: the sum of
// its terms is multiplied by its own factor over alpha, once, and the product's terms are added to it. So a pair whose right
// side is 0 changes no bit.
#include "hopper_activation.h"
#include "hopper_tiles.h"
#include "product.h"

struct HopperProductArgs {
  TensorMap a, b, low_a, low_b;  // low: of the pair
  ProductArgs p;
  int down, across, group;  // tiles of the result; so many rows of tiles are gone through together
  int fours;                // n is a multiple of four, and four neighbours of every matrix in p lie as one
  int plain;                // the result is bf16, eight of whose neighbours lie as one, and alpha is the whole epilogue
  int terms;                // of the pair; 0: there is none
  float factor;             // of the pair's sum, over alpha; of each run's sum (hopper_gradient.cu)
  int onto;                 // the total of runs starts at C
};

template <int GROUPS_, int N_, int STAGES_> struct HopperTile {
  static const int GROUPS = GROUPS_, ROWS = 64 * GROUPS, N = N_, STAGES = STAGES_, THREADS = 128 * (GROUPS + 1);
  // bytes: B across k comes in boxes of 64 columns, and not to narrower tiles
  static const int LEFT = ROWS * 128, STAGE = LEFT + (N < 64 ? N * 128 : (N + 63) / 64 * 8192);
};
const int WARP_ROOM = 16 * 64 * 4;  // bytes: 64 columns of a warp's 16 rows on their way to memory

struct Corner { int m, n; };
template <class T> DEV Corner corner(const HopperProductArgs& a, int tile) {
  int each = a.group * a.across, first = tile / each * a.group, rest = tile % each;
  int high = a.down - first < a.group ? a.down - first : a.group;
  return {(first + rest % high) * T::ROWS, rest / high * T::N};
}

// Four neighbours of a row, as they lie and as numbers.
struct alignas(16) Quad { float x[4]; };
struct alignas(16) RawQuad { uint32_t x[4]; };
struct alignas(8) Narrow { uint32_t x[2]; };
// read_quads reads the four from n on, in those of every second row from the first on that there are: all of them are on
// their way before any is looked at, which types within the loop would prevent.
template <int ROWS> DEV void read_quads(RawQuad (&v)[ROWS], const Mat& x, i64 first, i64 rows, int n) {
  i64 at = (first * x.stride + n) >> 2, step = x.stride >> 1;
  if (x.type == F32) {
    UNROLL for (int i = 0; i < ROWS; i++)
      if (2 * i < rows) v[i] = ((const RawQuad*)x.p)[at + i * step];
  } else {
    UNROLL for (int i = 0; i < ROWS; i++)
      if (2 * i < rows) {
        Narrow u = ((const Narrow*)x.p)[at + i * step];
        v[i].x[0] = u.x[0], v[i].x[1] = u.x[1];
      }
  }
}
DEV Quad numbers(const RawQuad& r, int type) {
  Quad v;
  UNROLL for (int e = 0; e < 4; e++) {
    uint32_t half = e & 1 ? r.x[e >> 1] & 0xffff0000u : r.x[e >> 1] << 16;
    v.x[e] = flush(from_bits(type == F32 ? r.x[e] : half));
  }
  return v;
}
DEV Quad quad_at(const Mat& x, i64 m, int n) {
  RawQuad v[1];
  read_quads(v, x, m, 1, n);
  return numbers(v[0], x.type);
}
// put_quad stores what arithmetic gave: it has no denormals.
DEV void put_quad(const Mat& to, i64 m, int n, const Quad& v) {
  i64 i = m * to.stride + n;
  if (to.type == F32)
    ((Quad*)to.p)[i >> 2] = v;
  else
    ((Narrow*)to.p)[i >> 2] = {{pack2(v.x[0], v.x[1]), pack2(v.x[2], v.x[3])}};
}
DEV void add_to(Quad& v, const Quad& y) {
  UNROLL for (int e = 0; e < 4; e++) v.x[e] = add(v.x[e], y.x[e]);
}

// finish_plain is the epilogue where a result of bf16 is alpha times the sum and no more: 64 columns at a time go through
// one half of a warp's room, while the other half is read.
template <int N> DEV void finish_plain(const ProductArgs& a, const float (&d)[N / 8][4], uint32_t* room, i64 m0, int n0) {
  int lane = threadIdx.x & 31;
  // Pieces of 16 bytes are moved about by the row, so that neither side meets in a bank.
  auto place = [&](int c, int r, int piece) { return room + (c & 1) * 512 + r * 32 + ((piece ^ r & 7) << 2); };
  __syncwarp();
  UNROLL for (int c = 0; c < (N + 63) / 64; c++) {
    const int pieces = (N - c * 64 < 64 ? N - c * 64 : 64) / 8;
    UNROLL for (int j = 0; j < 8; j++)
      if (j < pieces) UNROLL for (int half = 0; half < 2; half++) {
        const float* v = &d[c * 8 + j][2 * half];
        place(c, fragment_row(half * 2), j)[fragment_col(0, 0) / 2] = pack2(mul(a.alpha, v[0]), mul(a.alpha, v[1]));
      }
    __syncwarp();
    UNROLL for (int i = 0; i < 4; i++) {
      int r = i * 4 + lane / 8, piece = lane % 8, n = n0 + c * 64 + piece * 8;
      RawQuad v = *(const RawQuad*)place(c, r, piece);
      if (m0 + r < a.m && n < a.n && piece < pieces) ((RawQuad*)a.c.p)[((a.row0 + m0 + r) * a.c.stride + n) >> 3] = v;
    }
  }
}

// finish_rows is the epilogue of a warp's 16 rows, from m0 of this launch on, and of the columns from n0 on: 64 at a time, of
// which a lane has four neighbours in every second row. The residual is read before anything waits for it; what comes before
// the residual, but for alpha and the bias, is done by two rows, for a short program.
template <int N> DEV void finish_rows(const HopperProductArgs& args, const float (&d)[N / 8][4], float* room, i64 m0, int n0) {
  const ProductArgs& a = args.p;
  if (args.plain) return finish_plain<N>(a, d, (uint32_t*)room, m0, n0);
  const int ROWS = 8;  // of a lane
  int lane = threadIdx.x & 31, r0 = lane / 16, q = lane % 16;
  bool formed = a.pre.p || a.act || a.gate.p;
  const Mat& beside = a.residual.p ? a.residual : a.c;  // what is added at the end
  bool read = a.residual.p || a.accumulate, fours = args.fours && !(a.residual.p && a.accumulate);
  Mat bias = {a.bias.p, 0, 0, 0, a.bias.type, 0};
  auto near = [](int op, float x) {
    float v[1] = {x};
    activate_near(op, v);
    return v[0];
  };
  // Pieces of 16 bytes are moved about by the row, so that neither side meets in a bank.
  auto place = [&](int r, int piece) { return room + r * 64 + ((piece ^ (r & 3) * 2) << 2); };
  ROLLED for (int c = 0; c < (N + 63) / 64; c++) {
    int n = n0 + c * 64 + q * 4;
    i64 left = n < a.n && c * 64 + q * 4 < N ? a.m - m0 - r0 : 0, top = a.row0 + m0 + r0;  // rows from the lane's first on
    RawQuad added[ROWS], biases[1];
    if (fours) {
      if (read) read_quads(added, beside, top, left, n);
      if (bias.p) read_quads(biases, bias, 0, left, n);
    }
    __syncwarp();
    UNROLL for (int j = 0; j < N / 8; j++)
      if (j / 8 == c) UNROLL for (int half = 0; half < 2; half++) {
        int r = fragment_row(half * 2), col = fragment_col(j % 8, 0);
        *(Pair*)(place(r, col / 4) + col % 4) = {mul(a.alpha, d[j][2 * half]), mul(a.alpha, d[j][2 * half + 1])};
      }
    __syncwarp();
    if (!fours) {
      ROLLED for (int i = 0; i < 4 * ROWS; i++)
        if (i / 4 * 2 < left && n + i % 4 < a.n) finish_by(a, top + i / 4 * 2, n + i % 4, place(r0 + i / 4 * 2, q)[i % 4], near);
      continue;
    }
    if (formed) {
      Quad gate;
      i64 sample = -1;
      ROLLED for (int i = 0; i < ROWS && 2 * i < left; i += 2) {
        float v[8];
        UNROLL for (int u = 0; u < 2; u++) {
          Quad y = *(Quad*)place(r0 + 2 * (i + u), q);
          UNROLL for (int e = 0; e < 4; e++) v[4 * u + e] = y.x[e];
        }
        if (bias.p) {
          Quad y = numbers(biases[0], bias.type);
          UNROLL for (int e = 0; e < 8; e++) v[e] = add(v[e], y.x[e % 4]);
        }
        if (a.pre.p) UNROLL for (int u = 0; u < 2; u++)
          if (2 * (i + u) < left) put_quad(a.pre, top + 2 * (i + u), n, {{v[4 * u], v[4 * u + 1], v[4 * u + 2], v[4 * u + 3]}});
        if (a.act) activate_near(a.act, v);
        if (a.gate.p) UNROLL for (int u = 0; u < 2; u++) {
          if (2 * (i + u) >= left) break;
          i64 s = (uint32_t)(top + 2 * (i + u)) / (uint32_t)a.gate_rows;
          if (s != sample) gate = quad_at(a.gate, s, n), sample = s;
          UNROLL for (int e = 0; e < 4; e++) v[4 * u + e] = mul(v[4 * u + e], gate.x[e]);
        }
        UNROLL for (int u = 0; u < 2; u++) *(Quad*)place(r0 + 2 * (i + u), q) = {{v[4 * u], v[4 * u + 1], v[4 * u + 2], v[4 * u + 3]}};
      }
    }
    UNROLL for (int i = 0; i < ROWS; i++) {
      if (2 * i >= left) break;
      i64 m = top + 2 * i;
      Quad v = *(Quad*)place(r0 + 2 * i, q);
      if (bias.p && !formed) add_to(v, numbers(biases[0], bias.type));
      if (read) add_to(v, numbers(added[i], beside.type));
      put_quad(a.c, m, n, v);
    }
  }
}

// A place in the ring of stages, and how often it went round.
template <int STAGES> struct Ring {
  int slot = 0, round = 0;
  MEMBER void next() {
    if (++slot == STAGES) slot = 0, round++;
  }
};

template <class T, bool TURNED> DEV void hopper_product(const HopperProductArgs& args) {
  const int N = T::N, STAGES = T::STAGES;
  int slices = (int)((args.p.k + 63) / 64), lows = (args.terms + 63) / 64, tiles = args.down * args.across;
  uint32_t stages = tiles_start(), rooms = stages + STAGES * T::STAGE, full = rooms + T::GROUPS * 4 * WARP_ROOM, freed = full + STAGES * 8;
  SHARED(unsigned char, all);
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) barrier_begin(full + i * 8, 1), barrier_begin(freed + i * 8, 4 * T::GROUPS);
    barriers_begun();
  }
  __syncthreads();
  Ring<STAGES> at;
  if (crew() < 0) {
    if constexpr (T::GROUPS == 2) give_registers<40>();
    if (threadIdx.x == 0)
      for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        Corner c = corner<T>(args, tile);
        for (int s = 0; s < lows + slices; s++, at.next()) {
          bool low = s < lows;
          const TensorMap *left = low ? &args.low_a : &args.a, *right = low ? &args.low_b : &args.b;
          int k = (low ? s : s - lows) * 64;
          uint32_t bar = full + at.slot * 8, to = stages + at.slot * T::STAGE;
          if (at.round > 0) await(freed + at.slot * 8, at.round - 1);
          expect(bar, TURNED ? T::STAGE : T::LEFT + N * 128);
          bring(to, left, bar, k, 0, c.m, 0);
          if constexpr (TURNED)
            UNROLL for (int j = 0; j < (N + 63) / 64; j++) bring(to + T::LEFT + j * 8192, right, bar, c.n + j * 64, 0, k, 0);
          else
            bring(to + T::LEFT, right, bar, k, 0, c.n, 0);
        }
      }
  } else {
    if constexpr (T::GROUPS == 2) take_registers<232>();
    int w = crew();
    float* room = (float*)(all + (rooms - shared_address(all)) + threadIdx.x / 32 % (4 * T::GROUPS) * WARP_ROOM);
    float d[N / 8][4];
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      Corner c = corner<T>(args, tile);
      uint32_t last = 0;
      auto slice = [&](bool first) {
        uint32_t stage = stages + at.slot * T::STAGE, left = by_rows(stage + w * 8192), right = TURNED ? turned(stage + T::LEFT, 8192) : by_rows(stage + T::LEFT);
        await(full + at.slot * 8, at.round);
        products_begin();
        UNROLL for (int e = 0; e < 4; e++)
          multiply_rows<N, TURNED>(d, moved(left, e * 32), moved(right, e * (TURNED ? 2048 : 32)), first && e == 0);
        products_end();
        pending<1>();  // the slice before this one is used up
        if (!first) released(last);
        last = freed + at.slot * 8;
        at.next();
      };
      for (int k = 0; k < lows; k++) slice(k == 0);
      if (lows && args.factor != 1) {
        pending<0>(), arrived(d);
        UNROLL for (int j = 0; j < N / 8; j++)
          UNROLL for (int e = 0; e < 4; e++) d[j][e] = mul(d[j][e], args.factor);
      }
      for (int k = 0; k < slices; k++) slice(lows + k == 0);
      pending<0>(), arrived(d);
      released(last);
      finish_rows<N>(args, d, room, c.m + w * 64 + crew_warp(), c.n);
    }
  }
}
using Hopper256 = HopperTile<2, 256, 4>;
using Hopper192 = HopperTile<2, 192, 4>;
using Hopper128 = HopperTile<2, 128, 6>;
using Hopper96 = HopperTile<2, 96, 6>;
using Hopper64 = HopperTile<2, 64, 8>;
using HopperFew = HopperTile<1, 64, 5>;
using HopperThin = HopperTile<1, 32, 16>;
#define HOPPER_PRODUCT(side, T)                                                                                \
  KERNEL_ALONE(hopper_product_nt_##side, HopperProductArgs, T::THREADS) { hopper_product<T, false>(a); }       \
  KERNEL_ALONE(hopper_product_nn_##side, HopperProductArgs, T::THREADS) { hopper_product<T, true>(a); }
HOPPER_PRODUCT(256, Hopper256)
HOPPER_PRODUCT(192, Hopper192)
HOPPER_PRODUCT(128, Hopper128)
HOPPER_PRODUCT(96, Hopper96)
HOPPER_PRODUCT(64, Hopper64)
HOPPER_PRODUCT(few, HopperFew)
KERNEL_ALONE(hopper_product_nt_thin, HopperProductArgs, HopperThin::THREADS) { hopper_product<HopperThin, false>(a); }

// hopper_gradient.cu: gradients of weights by wgmma: C = alpha · Aᵀ·B, where both operands lie across k (TN): A is [k,m] and
// B [k,n], in rows along memory. The algorithm, the ring of stages and the epilogue are those of hopper_product.cu; both
// tiles are turned on their way into the unit.
//
// k is cut into runs, a sample each. The sum of a run starts at its first row and takes 16 rows at a time, in ascending
// order; what lies beyond its last row is zeros. With FOLD the sums of runs, times alpha, are added in order to a total
// that starts at C, or at -0. So C goes on from sample to sample: the bits of a gradient do not depend on how
// many samples a product has, nor on the tile. Without FOLD there is one run, and its sum goes through the epilogue.
#include "hopper_tiles.h"

// clear_tail blanks rows of k from `first` on in so many boxes of 64 by 64, by THREADS threads; they meet.
template <int THREADS> DEV void clear_tail(uint32_t stage, int boxes, int first) {
  int each = (64 - first) * 8;
  ROLLED for (int e = threadIdx.x - 128; e < each * boxes; e += THREADS) clear16(stage + e / each * 8192 + first * 128 + e % each * 16);
  publish();
  meet(1, THREADS);
}

template <class T, bool FOLD> DEV void hopper_gradient(const HopperProductArgs& args) {
  const int N = T::N, STAGES = T::STAGES, BOXES = T::GROUPS + N / 64;
  static_assert(N % 64 == 0, "whole boxes");
  int tiles = args.down * args.across, runs = FOLD ? (int)args.p.runs : 1;
  uint32_t stages = tiles_start(), rooms = stages + STAGES * T::STAGE, full = rooms + T::GROUPS * 4 * WARP_ROOM, freed = full + STAGES * 8;
  SHARED(unsigned char, all);
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) barrier_begin(full + i * 8, 1), barrier_begin(freed + i * 8, 4 * T::GROUPS);
    barriers_begun();
  }
  __syncthreads();
  // limits of a run of k: its first row, and how many it has.
  auto start = [&](int r) { return FOLD ? (int)run_start(args.p, r) : 0; };
  auto rows = [&](int r) { return FOLD ? (int)(run_start(args.p, r + 1) - run_start(args.p, r)) : (int)args.p.k; };
  Ring<STAGES> at;
  if (crew() < 0) {
    if constexpr (T::GROUPS == 2) give_registers<40>();
    if (threadIdx.x == 0)
      for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        Corner c = corner<T>(args, tile);
        for (int r = 0; r < runs; r++)
          for (int k = start(r), end = k + rows(r); k < end; k += 64, at.next()) {
            uint32_t bar = full + at.slot * 8, to = stages + at.slot * T::STAGE;
            if (at.round > 0) await(freed + at.slot * 8, at.round - 1);
            expect(bar, T::STAGE);
            UNROLL for (int i = 0; i < T::GROUPS; i++) bring(to + i * 8192, &args.a, bar, c.m + i * 64, 0, k, 0);
            UNROLL for (int j = 0; j < N / 64; j++) bring(to + T::LEFT + j * 8192, &args.b, bar, c.n + j * 64, 0, k, 0);
          }
      }
  } else {
    if constexpr (T::GROUPS == 2) take_registers<232>();
    int w = crew();
    float* room = (float*)(all + (rooms - shared_address(all)) + threadIdx.x / 32 % (4 * T::GROUPS) * WARP_ROOM);
    float d[N / 8][4], total[FOLD ? N / 8 : 1][4];
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      Corner c = corner<T>(args, tile);
      int m0 = c.m + w * 64 + crew_warp();
      if constexpr (FOLD) {
        UNROLL for (int j = 0; j < N / 8; j++)
          UNROLL for (int half = 0; half < 2; half++) {
            float* t = &total[j][half * 2];
            t[0] = t[1] = from_bits(0x80000000u);  // what is added to -0 stays what it is
            int m = m0 + fragment_row(half * 2), n = c.n + fragment_col(j, 0);
            if (!args.onto || m >= args.p.m || n >= args.p.n) continue;
            if (args.p.paired) {
              Pair v = pair_at(args.p.c, args.p.row0 + m, n);
              t[0] = v.x, t[1] = v.y;
            } else {
              t[0] = ::at(args.p.c, args.p.row0 + m, n);
              if (n + 1 < args.p.n) t[1] = ::at(args.p.c, args.p.row0 + m, n + 1);
            }
          }
      }
      ROLLED for (int r = 0; r < runs; r++) {
        uint32_t last = 0;
        int left = rows(r);
        ROLLED for (int s = 0; s * 64 < left; s++) {
          uint32_t stage = stages + at.slot * T::STAGE, x = turned(stage + w * 8192, 8192), y = turned(stage + T::LEFT, 8192);
          await(full + at.slot * 8, at.round);
          if (left - s * 64 < 64) clear_tail<128 * T::GROUPS>(stage, BOXES, left - s * 64);
          products_begin();
          UNROLL for (int e = 0; e < 4; e++) multiply_rows<N, true, true>(d, moved(x, e * 2048), moved(y, e * 2048), s == 0 && e == 0);
          products_end();
          pending<1>();  // the slice before this one is used up
          if (s) released(last);
          last = freed + at.slot * 8;
          at.next();
        }
        pending<0>(), arrived(d);
        released(last);
        if constexpr (FOLD)
          UNROLL for (int j = 0; j < N / 8; j++)
            UNROLL for (int e = 0; e < 4; e++) total[j][e] = add(total[j][e], mul(args.factor, d[j][e]));
      }
      if constexpr (FOLD)
        finish_rows<N>(args, total, room, m0, c.n);
      else
        finish_rows<N>(args, d, room, m0, c.n);
    }
  }
}
#define HOPPER_GRADIENT(side, T, FOLD, bounds) \
  bounds(hopper_gradient_##side, HopperProductArgs, T::THREADS) { hopper_gradient<T, FOLD>(a); }
HOPPER_GRADIENT(256, Hopper256, false, KERNEL_ALONE)
HOPPER_GRADIENT(192, Hopper192, false, KERNEL_ALONE)
HOPPER_GRADIENT(128, Hopper128, true, KERNEL_ALONE)
HOPPER_GRADIENT(64, Hopper64, true, KERNEL_ALONE)
HOPPER_GRADIENT(few, HopperFew, true, KERNEL_TWO)

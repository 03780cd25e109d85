// hopper.h: what Hopper's units add to device.h (compute capability 9.0, target sm_90a): boxes of a tensor
// that the copy engine brings, barriers that count their bytes, products of a warpgroup (wgmma).
//
// A place in shared memory is its 32-bit address. A tile is rows of 64 elements of bf16, 128 bytes, whose
// pieces of 16 are moved about by row % 8 (the 128-byte swizzle of both units); it starts at a
// multiple of 1024. Wider rows are several such tiles, one after another.
//
// A warpgroup is 128 threads. Its products run beside it: their sums may be touched only after a wait (arrived),
// and what its threads store where a product or the copy engine reads needs publish() and then a barrier.
//
// Descriptors and instructions are as the PTX manual (9.7.15) and CUTLASS (mma_sm90_desc.hpp) have them.
#pragma once
#include "attention.h"

struct alignas(64) TensorMap { uint64_t words[16]; };  // what cuTensorMapEncodeTiled writes

#ifdef DK_HOST
#include "../double/host/hopper.h"
#define ROLLED
#else
#define ROLLED _Pragma("unroll 1")
// Barriers. A phase ends when as many arrived as were named, and all bytes that were promised came.
DEV void barrier_begin(uint32_t bar, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory"); }
// barriers_begun makes them known to the copy engine; __syncthreads follows.
DEV void barriers_begun() { asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory"); }
DEV void arrive(uint32_t bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }
// expect arrives, and promises bytes of copies.
DEV void expect(uint32_t bar, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory"); }
// await waits for the end of phase number `phase`, of which the parity counts. What does not end within
// seconds writes to address 0, which ends the kernel: an error is better than a hang. (A trap would be an exit
// from the loops, and the compiler would then wait for every product.)
DEV void await(uint32_t bar, int phase) {
  for (int tries = 1;; tries++) {
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(bar), "r"(phase & 1) : "memory");
    if (done) return;
    if (tries == 1 << 26) asm volatile("st.global.u32 [%0], %1;" ::"l"(0ll), "r"(0) : "memory");
  }
}
// meet waits until so many threads came to a numbered barrier; come counts without waiting.
DEV void meet(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
DEV void come(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// bring starts the copy of a map's box at column x, head h, position s, sample b; beyond the tensor are zeros.
DEV void bring(uint32_t to, const TensorMap* map, uint32_t bar, int x, int h, int s, int b) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];"
               ::"r"(to), "l"(map), "r"(x), "r"(h), "r"(s), "r"(b), "r"(bar) : "memory");
}
// clear16 stores 16 bytes of zeros.
DEV void clear16(uint32_t to) { asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory"); }
DEV void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Registers of a warpgroup: those that one gives up another takes.
template <int N> DEV void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> DEV void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }

// A batch of products: begin, products, end. pending<N> waits until no more than the last N batches run.
DEV void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void products_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEV void pending() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// arrived keeps the compiler from reading sums before the wait that stands above it.
template <int J> DEV void arrived(float (&d)[J][4]) {
  UNROLL for (int j = 0; j < J; j++)
    UNROLL for (int e = 0; e < 4; e++) asm volatile("" : "+f"(d[j][e])::"memory");
}

// before keeps the work that x comes from above the wait that follows: ptxas would move a wait up to its batch's end. x is at
// least 0, or NaN, so that nothing is stored.
DEV void before(float x) {
  asm volatile("{ .reg .pred p; setp.eq.u32 p, %0, 0x80000001; @p st.shared.u32 [%1], %0; }" ::"r"(bits(x)), "r"(0) : "memory");
}

#define SUMS4(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define SUMS32(j) SUMS4(j), SUMS4(j + 1), SUMS4(j + 2), SUMS4(j + 3), SUMS4(j + 4), SUMS4(j + 5), SUMS4(j + 6), SUMS4(j + 7)
#define NAMES0_15 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define NAMES0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NAMES32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define NAMES64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define NAMES32_47 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define NAMES96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
// multiply_rows: d += a (64 rows, k along memory) times b (N columns: of rows with k along memory, or, TURNED, of
// rows of k with columns along memory), 16 of k; fresh: d = . LEFT_TURNED: a is rows of k with its 64 along memory.
template <int N, bool TURNED = false, bool LEFT_TURNED = false> DEV void multiply_rows(float (&d)[N / 8][4], uint64_t a, uint64_t b, bool fresh) {
  if constexpr (N == 32)
    asm volatile("{ .reg .pred p; setp.eq.b32 p, %18, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" NAMES0_15
                 "}, %16, %17, p, 1, 1, %20, %19; }"
                 : SUMS4(0), SUMS4(1), SUMS4(2), SUMS4(3) : "l"(a), "l"(b), "r"((int)fresh), "n"((int)TURNED), "n"((int)LEFT_TURNED));
  else if constexpr (N == 64)
    asm volatile("{ .reg .pred p; setp.eq.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" NAMES0
                 "}, %32, %33, p, 1, 1, %36, %35; }"
                 : SUMS32(0) : "l"(a), "l"(b), "r"((int)fresh), "n"((int)TURNED), "n"((int)LEFT_TURNED));
  else if constexpr (N == 128)
    asm volatile("{ .reg .pred p; setp.eq.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" NAMES0 NAMES32
                 "}, %64, %65, p, 1, 1, %68, %67; }"
                 : SUMS32(0), SUMS32(8) : "l"(a), "l"(b), "r"((int)fresh), "n"((int)TURNED), "n"((int)LEFT_TURNED));
  else if constexpr (N == 96)
    asm volatile("{ .reg .pred p; setp.eq.b32 p, %50, 0; wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {" NAMES0 NAMES32_47
                 "}, %48, %49, p, 1, 1, %52, %51; }"
                 : SUMS32(0), SUMS4(8), SUMS4(9), SUMS4(10), SUMS4(11) : "l"(a), "l"(b), "r"((int)fresh), "n"((int)TURNED), "n"((int)LEFT_TURNED));
  else if constexpr (N == 192)
    asm volatile("{ .reg .pred p; setp.eq.b32 p, %98, 0; wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" NAMES0 NAMES32 NAMES64
                 "}, %96, %97, p, 1, 1, %100, %99; }"
                 : SUMS32(0), SUMS32(8), SUMS32(16) : "l"(a), "l"(b), "r"((int)fresh), "n"((int)TURNED), "n"((int)LEFT_TURNED));
  else
    asm volatile("{ .reg .pred p; setp.eq.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" NAMES0 NAMES32 NAMES64 NAMES96
                 "}, %128, %129, p, 1, 1, %132, %131; }"
                 : SUMS32(0), SUMS32(8), SUMS32(16), SUMS32(24) : "l"(a), "l"(b), "r"((int)fresh), "n"((int)TURNED), "n"((int)LEFT_TURNED));
  static_assert(N == 32 || N == 64 || N == 96 || N == 128 || N == 192 || N == 256, "as many columns as a tile has");
}
// multiply_held: d += a (64 rows, held by the threads as fragments) times b (16 rows of k, N along memory).
template <int N> DEV void multiply_held(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (N == 64)
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" NAMES0 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : SUMS32(0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  else
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" NAMES0 NAMES32 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : SUMS32(0), SUMS32(8) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  static_assert(N == 64 || N == 128, "as many columns as a tile has");
}
// uniform tells the compiler that a number is the whole warp's.
DEV int uniform(int x) { return __shfl_sync(ALL, x, 0); }
// thread_anew is threadIdx.x, which the compiler must not keep in a register through a loop.
DEV int thread_anew() {
  int t;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(t));
  return t;
}
DEV float most_of(float x, float y) {  // a NaN stays one
  float z;
  asm("max.NaN.ftz.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
// exp2_unit is the special unit's power of two, within two units of the last place; 0 below -126, and a NaN stays one.
DEV float exp2_unit(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#endif

// A descriptor of an operand in shared memory, swizzled by 128 bytes: its lower half, where the place and the leading
// distance are; the upper is the same for all (eight rows are 1024 bytes, swizzle 1). By rows, eight rows are that far
// on from the last eight. Turned (rows are k), eight of k are, and the next 64 columns are a tile on.
DEV uint32_t by_rows(uint32_t at) { return at >> 4 | 1 << 16; }
DEV uint32_t turned(uint32_t at, uint32_t tile) { return at >> 4 | tile >> 4 << 16; }
// moved is a descriptor of what lies so many bytes on.
DEV uint64_t moved(uint32_t descriptor, uint32_t bytes) { return (uint64_t)(1u << 30 | 1024 >> 4) << 32 | (descriptor + (bytes >> 4)); }

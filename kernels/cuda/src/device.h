// device.h: the few primitives that the kernels use, and the operands they take.
//
// One source, two compilers. nvcc sees intrinsics and inline PTX; a host compiler (with
// DK_HOST) sees double/host/shim.h, which runs a block's threads as fibers.
//
// Every fp32 operation is written by name - add, mul, fma, quotient, root - so that no
// compiler fuses or reorders any. They round to nearest even and flush denormals to the
// zero of their sign (nvcc -ftz=true; the host sets FTZ and DAZ), as package ref does.
#pragma once
#include <stdint.h>

#ifdef DK_HOST
#include "../double/host/shim.h"
#else
#define DEV static __device__ __forceinline__
#define MEMBER __device__ __forceinline__  // of a struct
// CALLED is a function that is called, not copied: what is long and not in an inner loop.
#ifndef CALLED
#define CALLED static __device__ __noinline__
#endif
// KERNEL opens a kernel of one argument, a struct that Go lays out.
#define KERNEL(name, Args, threads) KERNEL_WITH(name, Args, __launch_bounds__(threads))
// KERNEL_ALONE is one that has a multiprocessor to itself: where registers change hands (hopper.h).
#define KERNEL_ALONE(name, Args, threads) KERNEL_WITH(name, Args, __launch_bounds__(threads, 1))
// KERNEL_TWO is one of which two blocks share a multiprocessor.
#define KERNEL_TWO(name, Args, threads) KERNEL_WITH(name, Args, __launch_bounds__(threads, 2))
#define KERNEL_WITH(name, Args, bounds)                                       \
  DEV void name##_body(const Args& a);                                        \
  extern "C" __global__ void bounds dk_##name(const __grid_constant__ Args a) { \
    after_others();                                                           \
    name##_body(a);                                                           \
  }                                                                           \
  DEV void name##_body(const Args& a)
// after_others lets the next kernel of the stream start its blocks as this one's leave room, and waits until the kernel
// before has ended and what it wrote can be read. So a kernel's start lies beside the end of the one before, where
// launches allow it (launch.go); each waits before it touches memory, so none overtakes another.
DEV void after_others() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
extern __shared__ __align__(128) unsigned char dk_shared[];
#define SHARED(T, name) T* name = (T*)dk_shared
#define UNROLL _Pragma("unroll")
#define PRAGMA(text) _Pragma(#text)
#define UNROLL_BY(n) PRAGMA(unroll n)
#define ROLLED _Pragma("unroll 1")
DEV uint32_t bits(float x) { return __float_as_uint(x); }
DEV float from_bits(uint32_t u) { return __uint_as_float(u); }
#endif

#ifndef DK_HOST
// Copies to shared memory that go on beside the work, and tensor cores (mma.sync, compute capability 8.0 on).
DEV uint32_t shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
DEV void copy_async(void* to, const void* from, int bytes) {  // 16 bytes; beyond `bytes` zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
// The same by places in shared memory, which loops keep as numbers.
typedef uint32_t Spot;
DEV Spot spot_of(const void* p) { return shared_address(p); }
DEV void copy_async_at(Spot to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
DEV void load_matrix_at(uint32_t* r, Spot p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(p) : "memory");
}
DEV void load_matrix_turned_at(uint32_t* r, Spot p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(p) : "memory");
}
DEV void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEV void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
DEV void load_matrix(uint32_t* r, const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)) : "memory");
}
DEV void load_matrix_turned(uint32_t* r, const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)) : "memory");
}
// pack2 rounds two numbers to bf16: lo to the lower half.
DEV uint32_t pack2(float lo, float hi) {
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
// reciprocal_near is 1/x but for its last bit.
DEV float reciprocal_near(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// multiply: d += a (16 x 16 by rows) times b (16 x 8 by columns).
DEV void multiply(float* d, const uint32_t* a, const uint32_t* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

typedef long long i64;
struct bf16 { uint16_t u; };

DEV float add(float x, float y) { return __fadd_rn(x, y); }
DEV float sub(float x, float y) { return __fadd_rn(x, -y); }
DEV float mul(float x, float y) { return __fmul_rn(x, y); }
DEV float fma_(float x, float y, float z) { return __fmaf_rn(x, y, z); }
DEV float quotient(float x, float y) { return __fdiv_rn(x, y); }
DEV float root(float x) { return __fsqrt_rn(x); }

// flush turns a denormal into the zero of its sign.
DEV float flush(float x) {
  uint32_t u = bits(x);
  return u & 0x7f800000u ? x : from_bits(u & 0x80000000u);
}
// larger is y where the operands compare neither way.
DEV float larger(float x, float y) { return x > y ? x : y; }
DEV bool nan(float x) { return (bits(x) & 0x7fffffffu) > 0x7f800000u; }
DEV float inf() { return from_bits(0x7f800000u); }

DEV float widen(uint16_t h) { return from_bits((uint32_t)h << 16); }
// narrow rounds to bf16, ties to even: denormals become zeros, a NaN stays one.
DEV uint16_t narrow(float x) {
  uint32_t u = bits(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16) | 0x40;
  if ((u & 0x7f800000u) == 0) return (uint16_t)(u >> 16) & 0x8000;
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
DEV float rounded(float x) { return widen(narrow(x)); }
#ifdef DK_HOST
DEV float reciprocal_near(float x) { return __fdiv_rn(1, x); }
DEV uint32_t pack2(float lo, float hi) { return narrow(lo) | (uint32_t)narrow(hi) << 16; }
#endif

// The element types, numbered as in package kernels.
enum { F32, BF16, F16, F64, I32, I64, U8 };

// Vec is a span, Mat a matrix inside one, Heads an attention operand. A null pointer is absent.
struct Vec { void* p; i64 n; int type, pad; };
struct Mat { void* p; i64 stride; int rows, cols, type, pad; };
struct Heads { void* p; i64 sb, ss, sh; int b, s, h, d, type, pad; };

DEV float load(const void* p, int type, i64 i) {
  return flush(type == F32 ? ((const float*)p)[i] : widen(((const uint16_t*)p)[i]));
}
DEV void store(void* p, int type, i64 i, float x) {
  if (type == F32)
    ((float*)p)[i] = flush(x);
  else
    ((uint16_t*)p)[i] = narrow(x);
}
DEV float at(const Vec& v, i64 i) { return load(v.p, v.type, i); }
DEV float at(const Mat& m, i64 r, int c) { return load(m.p, m.type, r * m.stride + c); }
DEV void put(const Vec& v, i64 i, float x) { store(v.p, v.type, i, x); }
DEV void put(const Mat& m, i64 r, int c, float x) { store(m.p, m.type, r * m.stride + c, x); }
DEV i64 head(const Heads& x, int b, int s, int h) { return b * x.sb + s * x.ss + h * x.sh; }

// The index of this thread in a grid of one dimension, and how many there are.
DEV i64 thread_index() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
DEV i64 thread_count() { return (i64)gridDim.x * blockDim.x; }

const unsigned ALL = 0xffffffffu;

// Sums over a row, by one warp, along the tree of ref/sum.go: element i goes to lane
// i mod 64 (two to a thread), f(i, lane) gives the lane with it added.
DEV float tree(float x, float y) {
  x = add(x, __shfl_xor_sync(ALL, x, 16));
  y = add(y, __shfl_xor_sync(ALL, y, 16));
  x = add(x, y);
  for (int d = 8; d; d >>= 1) x = add(x, __shfl_xor_sync(ALL, x, d));
  return x;
}
template <class F> DEV float warp_sum(int n, F f) {
  int lane = threadIdx.x & 31;
  float x = 0, y = 0;
  for (int i = lane; i < n; i += 64) {
    x = f(i, x);
    if (i + 32 < n) y = f(i + 32, y);
  }
  return tree(x, y);
}
// And in float64: 32 lanes, then halves.
DEV double tree64(double x) {
  for (int d = 16; d; d >>= 1) x = __dadd_rn(x, __shfl_xor_sync(ALL, x, d));
  return x;
}
template <class F> DEV double warp_sum64(i64 n, F f) {
  double x = 0;
  for (i64 i = threadIdx.x & 31; i < n; i += 32) x = __dadd_rn(x, (double)f(i));
  return tree64(x);
}
// The largest of f over a row: -Inf where it is empty; NaNs are passed over.
DEV float largest_of(float m) {
  for (int d = 16; d; d >>= 1) {
    float v = __shfl_xor_sync(ALL, m, d);
    if (v > m) m = v;
  }
  return m;
}
template <class F> DEV float warp_largest(int n, F f) {
  float m = -inf();
  for (int i = threadIdx.x & 31; i < n; i += 32) {
    float v = f(i);
    if (v > m) m = v;
  }
  return largest_of(m);
}

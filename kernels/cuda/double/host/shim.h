// shim.h: CUDA C kernels on a host. A block is one fiber a thread, blocks run one after another,
// and a fiber that never waits goes on to the next thread.
//
// It is stricter than a device: shared memory starts as NaN, odd blocks run their threads backwards,
// and threads that wait at different barriers, or lanes that disagree on a mask, are errors. A kernel's
// launches take turns at three orders, any of which a device may choose: warps side by side while copies
// of cp.async land at their wait and no sooner, so that a wait too few shows; and one warp as far ahead of
// the others as barriers let it, from the first on and from the last on, while copies land at once, so
// that a barrier too few does. What it cannot show: fences missing between real threads, bank conflicts, speed.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <xmmintrin.h>
#include <deque>
#include <string>
#include <vector>

#define DEV static inline __attribute__((always_inline))
#define MEMBER inline __attribute__((always_inline))
#define CALLED static
#define UNROLL
#define UNROLL_BY(n)
#define ROLLED
#define KERNEL(name, Args, threads)                            \
  static void name##_body(const Args& a);                      \
  static void name##_call(const void* p) { name##_body(*(const Args*)p); } \
  static dk::Register name##_register{"dk_" #name, sizeof(Args), threads, name##_call}; \
  static void name##_body(const Args& a)
#define KERNEL_ALONE KERNEL
#define KERNEL_TWO KERNEL
#define SHARED(T, name) T* name = (T*)dk::shared

struct dim3 { unsigned x = 1, y = 1, z = 1; };

namespace dk {
struct Copy { void* to; const void* from; int bytes, group; };
struct Fiber { void *sp, *stack; dim3 tid; int id = 0, group = 0; std::deque<Copy> copies; };
struct Warp { unsigned turn = 0, mask = 0, in = 0; unsigned char slot[2][32][64]; };
struct Kernel { const char* name; int size, threads; void (*call)(const void*); };

inline dim3 block_id, block_dim, grid_dim;
inline Fiber* cur;
inline void *shared, *main_sp;
inline std::vector<Fiber*> pool;
inline std::vector<Warp> warps;
inline unsigned n, next, done, bar_in, bar_turn, bar_line, progress;
inline std::string error;
enum Order : unsigned { BESIDE, AHEAD, BEHIND, ORDERS };
inline unsigned order;   // of this launch
inline Fiber* at[1024];  // of every thread that has started
inline const Kernel* kernel;
inline const void* args;
inline std::vector<Kernel>& kernels() { static std::vector<Kernel> k; return k; }
struct Register {
  Register(const char* name, int size, int threads, void (*call)(const void*)) { kernels().push_back({name, size, threads, call}); }
};

extern "C" void dk_switch(void** save, void* load);
inline void yield() { dk_switch(&cur->sp, main_sp); }

// following is the block's next thread that has not started; bind gives it a fiber.
inline unsigned following() { return order == BEHIND || (order == BESIDE && block_id.x & 1 && n <= 32) ? n - 1 - next : next; }
inline bool bind(Fiber* f) {
  if (next == n) return false;
  unsigned t = following();
  f->id = t, f->group = 0, f->copies.clear(), at[t] = f;
  f->tid = {t % block_dim.x, t / block_dim.x % block_dim.y, t / block_dim.x / block_dim.y};
  next++;
  return true;
}
inline void entry() {
  do { kernel->call(args); done++, progress++; } while (bind(cur));
  cur->id = -1;
  yield();
}
inline Fiber* fiber(size_t i) {
  const size_t size = 64 << 10;
  if (pool.size() <= i) {
    pool.push_back(new Fiber);
    pool[i]->stack = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  Fiber* f = pool[i];
  void** top = (void**)((char*)f->stack + size) - 2;  // six saved registers lie below the return address
  *top = (void*)entry, *(top + 1) = nullptr;
  f->sp = top - 6;
  return f;
}
inline void start(size_t i) {
  cur = fiber(i);
  bind(cur);
  progress++;
  dk_switch(&main_sp, cur->sp);
}
// beside gives every thread of a block one turn.
inline void beside(size_t& live) {
  for (size_t i = 0; i < live; i++) {
    cur = pool[block_id.x & 1 ? live - 1 - i : i];
    if (cur->id >= 0) dk_switch(&main_sp, cur->sp);
  }
  while (next < n) start(live++);
}
// ahead lets one warp after another run until only the others can let it go on.
inline void ahead(size_t& live) {
  for (unsigned k = 0; k < warps.size() && error.empty(); k++) {
    unsigned w = order == BEHIND ? warps.size() - 1 - k : k, end = w * 32 + 32 < n ? w * 32 + 32 : n, before;
    do {
      before = progress;
      while (next < n && following() / 32 == w) start(live++);
      for (unsigned t = w * 32; t < end; t++)
        if (at[t] && at[t]->id == (int)t) cur = at[t], dk_switch(&main_sp, cur->sp);
    } while (progress != before && error.empty());
  }
}
inline bool run_block() {
  next = done = bar_in = 0;
  n = block_dim.x * block_dim.y * block_dim.z;
  warps.resize((n + 31) / 32);
  for (auto& w : warps) w.turn = w.mask = w.in = 0;
  for (unsigned t = 0; t < n; t++) at[t] = nullptr;
  int idle = 0;  // rounds: what lands at last (hopper.h) does in the second
  for (size_t live = 0; done < n;) {
    unsigned before = progress;
    order == BESIDE ? beside(live) : ahead(live);
    idle = progress == before ? idle + 1 : 0;
    if (idle > 2 && error.empty()) error = "threads wait at a barrier or warp operation that others never reach";
    if (!error.empty()) return false;  // the fibers are abandoned
  }
  return true;
}
inline void sync(unsigned line) {
  if (bar_in++ == 0) bar_line = line;
  if (bar_line != line) error = "threads of a block wait at different __syncthreads";
  for (unsigned turn = bar_turn; bar_turn == turn; yield())
    if (bar_in == n - done) { bar_in = 0, bar_turn++, progress++; return; }
}
// All lanes of a mask leave a value and read each other's; slots alternate, so one wait is enough.
template <class T> inline const unsigned char (*exchange(unsigned mask, const T& v))[64] {
  static_assert(sizeof v <= 64, "a lane's value");
  Warp& w = warps[cur->id / 32];
  unsigned lane = cur->id & 31, turn = w.turn, lanes = n - (cur->id & ~31u);
  if (lanes < 32) mask &= (1u << lanes) - 1;
  if (!w.in) w.mask = mask;
  if (w.mask != mask) error = "lanes of a warp operation disagree on its mask";
  memcpy(w.slot[turn & 1][lane], &v, sizeof v);
  w.in |= 1u << lane;
  if (w.in == w.mask) w.in = 0, w.turn++, progress++;
  while (w.turn == turn) yield();
  return w.slot[turn & 1];
}
template <class T> inline T from(const unsigned char (*s)[64], int lane) { T v; memcpy(&v, s[lane & 31], sizeof v); return v; }
inline void land(const Copy& c) {
  memset(c.to, 0, 16);
  memcpy(c.to, c.from, c.bytes);
}
inline void land(int upto) {
  auto& c = cur->copies;
  for (; !c.empty() && c[0].group < upto; c.pop_front()) land(c[0]);
}
}  // namespace dk

#define threadIdx (dk::cur->tid)
#define blockIdx dk::block_id
#define blockDim dk::block_dim
#define gridDim dk::grid_dim
#define __syncthreads() dk::sync(__LINE__)
static inline void __syncwarp() { dk::exchange(~0u, 0); }
template <class T> inline T __shfl_xor_sync(unsigned m, T v, int d) { return dk::from<T>(dk::exchange(m, v), (dk::cur->id & 31) ^ d); }

static inline void copy_async(void* to, const void* from, int bytes) {
  dk::Copy c = {to, from, bytes, dk::cur->group};
  if (dk::order == dk::BESIDE) dk::cur->copies.push_back(c);
  else dk::land(c);
}
typedef uintptr_t Spot;
static inline Spot spot_of(const void* p) { return (Spot)p; }
static inline void copy_async_at(Spot to, const void* from, int bytes) { copy_async((void*)to, from, bytes); }
static inline void copy_commit() { dk::cur->group++; }
template <int N> inline void copy_wait() { dk::land(dk::cur->group - N); }
// Matrix i of four has its eight rows at the addresses of lanes 8i to 8i+7; lane l takes elements 2(l%4)
// and the next of row l/4 - turned: of column l/4.
static inline void load_matrix(uint32_t* r, const void* row) {
  auto s = dk::exchange(~0u, row);
  int lane = dk::cur->id & 31;
  for (int i = 0; i < 4; i++) memcpy(&r[i], (const char*)dk::from<const void*>(s, i * 8 + lane / 4) + (lane & 3) * 4, 4);
}
static inline void load_matrix_turned(uint32_t* r, const void* row) {
  auto s = dk::exchange(~0u, row);
  int lane = dk::cur->id & 31;
  for (int i = 0; i < 4; i++) {
    uint16_t x[2];
    for (int k = 0; k < 2; k++) memcpy(&x[k], (const char*)dk::from<const void*>(s, i * 8 + (lane & 3) * 2 + k) + lane / 4 * 2, 2);
    memcpy(&r[i], x, 4);
  }
}
static inline void load_matrix_at(uint32_t* r, Spot p) { load_matrix(r, (const void*)p); }
static inline void load_matrix_turned_at(uint32_t* r, Spot p) { load_matrix_turned(r, (const void*)p); }
static inline void multiply(float* d, const uint32_t* a, const uint32_t* b) {  // the fragments of the PTX manual
  struct AB { uint32_t a[4], b[2]; } ab = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  auto s = dk::exchange(~0u, ab);
  int lane = dk::cur->id & 31, g = lane / 4, t = lane & 3;
  auto wide = [](uint32_t x, int h) { uint32_t u = (x >> (16 * h)) << 16; float f; memcpy(&f, &u, 4); return f; };
  for (int kh = 0; kh < 2; kh++)
    for (int q = 0; q < 4; q++) {
      AB x = dk::from<AB>(s, g * 4 + q), y0 = dk::from<AB>(s, 2 * t * 4 + q), y1 = dk::from<AB>(s, (2 * t + 1) * 4 + q);
      for (int h = 0; h < 2; h++) {
        float u = wide(x.a[2 * kh], h), v = wide(x.a[2 * kh + 1], h), p = wide(y0.b[kh], h), q1 = wide(y1.b[kh], h);
        d[0] += u * p, d[1] += u * q1, d[2] += v * p, d[3] += v * q1;
      }
    }
}

// Arithmetic: FTZ and DAZ are set while kernels run, and no product is fused unless by name.
namespace dk {
// ieee is f of two numbers while neither is set. Volatile, so that f stays between the changes of mode.
template <class F> inline __attribute__((noinline)) float ieee(F f, float x, float y) {
  volatile float u = x, v = y;
  unsigned csr = _mm_getcsr();
  _mm_setcsr(csr & ~0x8040u);
  volatile float z = f(u, v);
  _mm_setcsr(csr);
  return z;
}
}  // namespace dk
DEV float __fadd_rn(float x, float y) { return x + y; }
DEV float __fmul_rn(float x, float y) { return x * y; }
DEV float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
DEV float __fdiv_rn(float x, float y) { return x / y; }
DEV float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
DEV double __dadd_rn(double x, double y) { return x + y; }
DEV double __dmul_rn(double x, double y) { return x * y; }
DEV double __ddiv_rn(double x, double y) { return x / y; }
DEV uint32_t bits(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
DEV float from_bits(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }

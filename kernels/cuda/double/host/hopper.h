// hopper.h: Hopper's units on a host, behind the names of src/hopper.h.
//
// As strict as shim.h, and in its orders. With warps side by side a box of the copy engine lands only when nothing else can
// go on, and its place is NaN from the start of the copy on, and so is a warpgroup's product; in
// the other orders boxes land at once, and products are computed as soon as all 128 threads asked for them. A product's
// sums are NaN until its wait. Errors with a message: a barrier that was not begun,
// bytes promised that no copy brings, a copy or a product that nobody waited for, sums written while a product
// runs, a product without its fence, stores that are not published to where a product or a copy reaches, a descriptor or
// an address that the units do not take, threads of a warpgroup that disagree, registers beyond the file.
// What it cannot show: the order in which a unit adds within one product, speed, two units racing for real.
#pragma once
#include <map>
#include <memory>

namespace hopper {
const uint32_t WINDOW = 1024 + 128;  // the address of a block's shared memory: a multiple of 128, not of 1024
const uint32_t POISON = 0x7fc0dead;

// A map as the double writes it into the 128 bytes of TensorMap.
struct Map {
  uint64_t magic;
  const char* base;
  uint64_t strides[4];  // bytes, of dimensions 1 on
  uint32_t dims[5], box[5];
  int rank, size, swizzle;  // swizzle: 0 to 3 for none, 32, 64, 128 bytes
};
const uint64_t MAGIC = 0x7e4502a9d1c3b866;
static_assert(sizeof(Map) <= 128, "it fits");

struct Copying { Map map; uint32_t to; int at[5]; };
struct Barrier { int count, pending; long bytes; unsigned phase; std::deque<Copying> copies; };
struct Meeting { int threads = 0, in = 0; unsigned turn = 0; };
struct Store { uint32_t at; int bytes, thread; };
// A product of a warpgroup: 64 x n sums, shared along a chain of products with the same sums.
struct Product {
  int n, in = 0, after = -1;  // after: the product before it in its chain
  bool held, turned, left_turned, fresh, done = false;
  uint64_t a, b;
  std::shared_ptr<std::vector<float>> sums;
  uint32_t left[128][4];
};
struct Ran { int product; float* d; };
struct Thread { bool fenced; int joined, given; std::vector<int> batches; size_t waited; std::vector<Ran> running; };
struct Group { std::vector<Product> products; };

inline std::map<uint32_t, Barrier> barriers;
inline Meeting meetings[16];
inline std::vector<Store> unpublished;
inline std::vector<Thread> threads;
inline std::vector<Group> groups;
inline unsigned room;   // bytes of shared memory of the launch
inline int wrong;       // tests: leave out the last of k of each product

[[noreturn]] inline void fail(const std::string& why) {
  if (dk::error.empty()) dk::error = why;
  for (;;) dk::yield();
}
inline unsigned char* place(uint32_t at, int bytes, const char* what) {
  if (at < WINDOW || at + bytes > WINDOW + room) fail(std::string(what) + " beyond the block's shared memory");
  return (unsigned char*)dk::shared + (at - WINDOW);
}
inline Thread& self() { return threads[dk::cur->id]; }
inline uint32_t swizzled(uint32_t at, int mode) { return at ^ ((at >> 3) & (mode == 3 ? 0x70 : mode == 2 ? 0x30 : mode == 1 ? 0x10 : 0)); }
inline bool hidden(uint32_t at, int bytes) {
  for (auto& s : unpublished)
    if (at < s.at + s.bytes && s.at < at + bytes) return true;
  return false;
}

inline void start(unsigned bytes) {
  barriers.clear(), unpublished.clear(), room = bytes;
  for (auto& m : meetings) m = Meeting();
  threads.assign(dk::block_dim.x, Thread()), groups.assign((dk::block_dim.x + 127) / 128, Group());
}
// finish says what a block left behind.
inline bool finish() {
  int registers = 0;
  for (auto& b : barriers)
    if (!b.second.copies.empty()) dk::error = "a copy that nobody waited for was still on its way when its block ended";
  for (auto& m : meetings)
    if (m.in) dk::error = "threads came to a numbered barrier that no others waited at";
  for (size_t i = 0; i < threads.size(); i++) {
    if (!threads[i].running.empty()) dk::error = "products that nobody waited for were running when their thread ended";
    if (threads[i].given != threads[i / 128 * 128].given) dk::error = "threads of a warpgroup disagree on its registers";
    registers += threads[i].given;
  }
  int n = dk::block_dim.x, pool = 65536 / n / 8 * 8 * n;  // what a block starts with
  if (registers > pool) dk::error = "warpgroups wait for more registers than their block has";
  return dk::error.empty();
}

// land does the copies of a barrier.
inline void land(Barrier& b) {
  for (auto& c : b.copies) {
    const Map& m = c.map;
    int row = m.box[0] * m.size, rows = 1;
    for (int i = 1; i < m.rank; i++) rows *= m.box[i];
    for (int r = 0; r < rows; r++) {
      const char* from = m.base;
      bool outside = false;
      for (int i = 1, rest = r; i < m.rank; rest /= m.box[i], i++) {
        int x = c.at[i] + rest % m.box[i];
        outside |= x < 0 || x >= (int)m.dims[i];
        from += (int64_t)x * m.strides[i - 1];
      }
      for (int e = 0; e < row; e += 2) {
        int x = c.at[0] + e / m.size;
        uint16_t v = 0;
        if (!outside && x >= 0 && x < (int)m.dims[0]) memcpy(&v, from + (int64_t)x * m.size + e % m.size, 2);
        memcpy(place(swizzled(c.to + r * row + e, m.swizzle), 2, "a copy"), &v, 2);
      }
    }
    b.bytes -= (long)row * rows;
  }
  b.copies.clear();
  dk::progress++;
}
inline Barrier& barrier(uint32_t at) {
  auto it = barriers.find(at);
  if (it == barriers.end()) fail("a barrier in shared memory that was not begun");
  return it->second;
}
inline void turn(Barrier& b) {
  if (b.pending == 0 && b.bytes == 0 && b.copies.empty()) b.phase++, b.pending = b.count;
  dk::progress++;
}
inline void come_to(int id, int n, bool wait) {
  if (id < 1 || id > 15 || n % 32 || n > (int)dk::block_dim.x) fail("a numbered barrier is 1 to 15, for whole warps of the block");
  Meeting& m = meetings[id];
  if (m.in == 0) m.threads = n;
  if (m.threads != n) fail("threads disagree on how many meet at a numbered barrier");
  unsigned turn = m.turn;
  dk::progress++;
  if (++m.in == n) { m.in = 0, m.turn++; return; }
  while (wait && m.turn == turn) dk::yield();
}
}  // namespace hopper
#include "wgmma.h"

static inline uint32_t shared_address(const void* p) { return (uint32_t)((const unsigned char*)p - (const unsigned char*)dk::shared) + hopper::WINDOW; }
static inline void barrier_begin(uint32_t bar, int n) {
  if (bar % 8 || n < 1 || hopper::barriers.count(bar)) hopper::fail("a barrier is begun once, for one thread at least, at a multiple of 8");
  hopper::place(bar, 8, "a barrier");
  hopper::barriers[bar] = {n, n, 0, 0, {}};
  hopper::unpublished.push_back({bar, 8, dk::cur->id});
}
static inline void publish() {
  auto& u = hopper::unpublished;
  for (size_t i = 0; i < u.size();) u[i].thread == dk::cur->id ? (void)u.erase(u.begin() + i) : (void)i++;
}
static inline void barriers_begun() { publish(); }
static inline void arrive(uint32_t bar) {
  auto& b = hopper::barrier(bar);
  if (--b.pending < 0) hopper::fail("more threads arrive at a barrier than it was begun for");
  hopper::turn(b);
}
static inline void expect(uint32_t bar, int bytes) { hopper::barrier(bar).bytes += bytes, arrive(bar); }
static inline void await(uint32_t bar, int phase) {
  auto& b = hopper::barrier(bar);
  while ((b.phase & 1) == (unsigned)(phase & 1)) {
    unsigned before = dk::progress;
    dk::yield();
    if (dk::progress != before || b.copies.empty() || (b.phase & 1) != (unsigned)(phase & 1)) continue;
    hopper::land(b), hopper::turn(b);  // nothing else goes on
  }
}
static inline void meet(int id, int n) { hopper::come_to(id, n, true); }
static inline void come(int id, int n) { hopper::come_to(id, n, false); }
static inline void bring(uint32_t to, const TensorMap* map, uint32_t bar, int x, int h, int s, int b) {
  hopper::Copying c = {{}, to, {x, h, s, b}};
  memcpy(&c.map, map, sizeof c.map);
  if (c.map.magic != hopper::MAGIC || c.map.rank != 4) hopper::fail("a copy by what is no map of four dimensions");
  if (to % (128 << (c.map.swizzle ? c.map.swizzle : 0))) hopper::fail("a copy to where its swizzle does not start");
  int bytes = c.map.box[0] * c.map.size * c.map.box[1] * c.map.box[2] * c.map.box[3];
  if (hopper::hidden(to, bytes) || hopper::hidden(bar, 8)) hopper::fail("a copy reaches what a thread stored and did not publish");
  memset(hopper::place(to, bytes, "a copy"), 0xFF, bytes);
  auto& waiting = hopper::barrier(bar);
  waiting.copies.push_back(c);
  if (dk::order != dk::BESIDE) hopper::land(waiting), hopper::turn(waiting);
}
static inline void clear16(uint32_t to) {
  if (to % 16) hopper::fail("a store of 16 bytes at no multiple of 16");
  memset(hopper::place(to, 16, "a store"), 0, 16);
  hopper::unpublished.push_back({to, 16, dk::cur->id});
}
static inline void keep_registers(int n) {
  if (n % 8 || n < 24 || n > 256) hopper::fail("a thread keeps 24 to 256 registers, by eights");
  hopper::self().given = n;
}
template <int N> static inline void give_registers() { keep_registers(N); }
template <int N> static inline void take_registers() { keep_registers(N); }
static inline void products_begin() { hopper::self().fenced = true; }
static inline void products_end() { hopper::self().batches.push_back(hopper::self().joined); }
template <int N> static inline void pending() { hopper::wait(N); }
static inline int uniform(int x) { return x; }
static inline int thread_anew() { return threadIdx.x; }
static inline void before(float) {}
template <int J> static inline void arrived(float (&)[J][4]) {}
template <int N, bool TURNED = false, bool LEFT_TURNED = false> static inline void multiply_rows(float (&d)[N / 8][4], uint64_t a, uint64_t b, bool fresh) {
  hopper::product(&d[0][0], N, false, TURNED, LEFT_TURNED, fresh, a, b, nullptr);
}
template <int N> static inline void multiply_held(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b) { hopper::product(&d[0][0], N, true, true, false, false, 0, b, a); }
static inline float most_of(float x, float y) { return nan(x) || x > y ? x : y; }
// exp2_unit is within a unit of the last place of what the device's gives.
static inline float exp2_unit(float x) { return x < -126 ? 0 : exp2f(x); }

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
  bool held, fresh, done = false;
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

// An operand is what a descriptor says: rows of k, or turned, where rows are k. Pieces of 16 bytes lie together.
struct Operand {
  uint32_t at, leading, stride;
  int mode;  // of the swizzle, as in Map
  bool turned;
  Operand(uint64_t d, bool turned) : at((d & 0x3fff) << 4), leading((d >> 16 & 0x3fff) << 4), stride((d >> 32 & 0x3fff) << 4), mode((4 - (d >> 62)) & 3), turned(turned) {
    if (d & ~(0xc000000000000000ull | 0x3fff3fff3fffull)) fail("a descriptor with bits that mean nothing here");
    if (mode && at % (128 << mode) >= (uint32_t)(16 << mode)) fail("a descriptor that starts in the midst of its swizzle");
  }
  // piece reads the eight elements from (i, k) on: along k, or along i where it is turned.
  void piece(float* to, int i, int k) const {
    int wide = 16 << mode, per = wide / 2;  // bytes and elements of a swizzled row
    uint32_t x = turned ? (mode ? i / per * leading + k / 8 * stride + i % per * 2 + k % 8 * wide : i / 8 * stride + k / 8 * leading + k % 8 * 16)
                        : (mode ? i / 8 * stride + i % 8 * wide + k * 2 : i / 8 * stride + k / 8 * leading + i % 8 * 16);
    x = swizzled(at + x, mode);
    if (!unpublished.empty() && hidden(x, 16)) fail("a product reads what a thread stored and did not publish");
    uint16_t v[8];
    memcpy(v, place(x, 16, "a product reads"), 16);
    for (int e = 0; e < 8; e++) to[e] = from_bits((uint32_t)v[e] << 16);
  }
};
inline float half_of(uint32_t x, int h) { return from_bits((x >> (16 * h)) << 16); }

inline void compute(Group& g, Product& p) {
  static float a[64][16], b[16][128];
  if (p.held) {  // the fragments of the PTX manual
    for (int t = 0; t < 128; t++)
      for (int e = 0; e < 8; e++) a[t / 32 * 16 + (t & 31) / 4 + (e >> 1 & 1) * 8][(t & 3) * 2 + (e & 1) + (e >> 2) * 8] = half_of(p.left[t][e >> 1], e & 1);
  } else {
    Operand x(p.a, false);
    for (int i = 0; i < 64; i++) x.piece(a[i], i, 0), x.piece(a[i] + 8, i, 8);
  }
  Operand y(p.b, p.held);
  float row[8];
  for (int i = 0; i < p.n; i += p.held ? 8 : 1)
    for (int k = 0; k < 16; k += p.held ? 1 : 8) {
      y.piece(p.held ? &b[k][i] : row, i, k);
      if (!p.held) for (int e = 0; e < 8; e++) b[k + e][i] = row[e];
    }
  typedef float lanes __attribute__((vector_size(32)));
  float* sums = p.sums->data();
  for (int i = 0; i < 64; i++)
    for (int j = 0; j < p.n; j += 8) {
      lanes c = {}, v;
      if (!p.fresh) memcpy(&c, sums + i * p.n + j, 32);
      for (int k = 0; k < 16 - wrong; k++) memcpy(&v, &b[k][j], 32), c += a[i][k] * v;
      memcpy(sums + i * p.n + j, &c, 32);
    }
  p.done = true, dk::progress++;
}
// Element i of a thread's sums: its place among the 64 x n.
inline int element(int n, int i) {
  int t = dk::cur->id % 128;
  return (t / 32 * 16 + (t & 31) / 4 + (i >> 1 & 1) * 8) * n + i / 4 * 8 + (t & 3) * 2 + (i & 1);
}
inline void untouched(const float* d, int n) {
  for (int i = 0; i < n / 2; i++)
    if (bits(d[i]) != POISON) fail("sums were written while a product ran");
}
inline void product(float* d, int n, bool held, bool fresh, uint64_t a, uint64_t b, const uint32_t* left) {
  if (dk::block_dim.x % 128) fail("a product needs whole warpgroups");
  Thread& me = self();
  Group& g = groups[dk::cur->id / 128];
  if (!me.fenced) fail("a product without its fence (products_begin)");
  int after = -1;
  for (auto& r : me.running) if (r.d == d) after = r.product;
  if ((int)g.products.size() == me.joined) {
    Product p;
    p.n = n, p.held = held, p.fresh = fresh, p.a = a, p.b = b, p.after = after;
    p.sums = after < 0 ? std::make_shared<std::vector<float>>(64 * n) : g.products[after].sums;
    g.products.push_back(p);
  }
  Product& p = g.products[me.joined];
  if (p.n != n || p.held != held || p.fresh != fresh || p.a != a || p.b != b || p.after != after) fail("threads of a warpgroup disagree on a product");
  if (held) memcpy(p.left[dk::cur->id % 128], left, 16);
  if (after < 0) {
    if (!fresh) for (int i = 0; i < n / 2; i++) (*p.sums)[element(n, i)] = d[i];
  } else
    untouched(d, n);
  for (int i = 0; i < n / 2; i++) d[i] = from_bits(POISON);
  me.running.push_back({me.joined++, d});
  if (++p.in == 128 && dk::order != dk::BESIDE) compute(g, p);
}
inline void wait(int keep) {
  Thread& me = self();
  Group& g = groups[dk::cur->id / 128];
  me.fenced = false;  // its registers are read and written from here on
  int until = (int)me.batches.size() - keep, limit = until > 0 ? me.batches[until - 1] : 0;
  for (int i = 0; i < limit; i++) {
    while (g.products[i].in < 128) dk::yield();
    for (unsigned before = dk::progress - 1; dk::order == dk::BESIDE && !g.products[i].done && dk::progress != before;) {
      before = dk::progress;
      dk::yield();
    }
    if (!g.products[i].done) compute(g, g.products[i]);
  }
  std::vector<Ran> still;
  for (auto& r : me.running) {
    bool last = true;
    for (auto& o : me.running) last &= o.d != r.d || o.product <= r.product;
    if (r.product >= limit) still.push_back(r);
    else if (last) {
      Product& p = g.products[r.product];
      untouched(r.d, p.n);
      for (int i = 0; i < p.n / 2; i++) r.d[i] = (*p.sums)[element(p.n, i)];
    }
  }
  me.running = still;
}
}  // namespace hopper

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
template <int J> static inline void arrived(float (&)[J][4]) {}
template <int N> static inline void multiply_rows(float (&d)[N / 8][4], uint64_t a, uint64_t b, bool fresh) { hopper::product(&d[0][0], N, false, fresh, a, b, nullptr); }
template <int N> static inline void multiply_held(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b) { hopper::product(&d[0][0], N, true, false, 0, b, a); }
// add_down rounds towards minus infinity: y is above 0 and the larger of the two.
static inline float add_down(float x, float y) {
  float sum = x + y;
  return x < sum - y ? from_bits(bits(sum) - 1) : sum;
}
static inline float most_of(float x, float y) { return nan(x) || x > y ? x : y; }
static inline float number_of(float x, float y) { return nan(x) ? y : nan(y) || x > y ? x : y; }

// wgmma.h: a warpgroup's products on a host; part of hopper.h, which says when they are computed and what is an error.
#pragma once

namespace hopper {
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
  static float a[64][16], b[16][256];
  if (p.held) {  // the fragments of the PTX manual
    for (int t = 0; t < 128; t++)
      for (int e = 0; e < 8; e++) a[t / 32 * 16 + (t & 31) / 4 + (e >> 1 & 1) * 8][(t & 3) * 2 + (e & 1) + (e >> 2) * 8] = half_of(p.left[t][e >> 1], e & 1);
  } else {
    Operand x(p.a, p.left_turned);
    float column[8];
    for (int i = 0; i < 64 && !p.left_turned; i++) x.piece(a[i], i, 0), x.piece(a[i] + 8, i, 8);
    for (int i = 0; i < 64 && p.left_turned; i += 8)
      for (int k = 0; k < 16; k++) {
        x.piece(column, i, k);
        for (int e = 0; e < 8; e++) a[i + e][k] = column[e];
      }
  }
  Operand y(p.b, p.turned);
  float row[8];
  for (int i = 0; i < p.n; i += p.turned ? 8 : 1)
    for (int k = 0; k < 16; k += p.turned ? 1 : 8) {
      y.piece(p.turned ? &b[k][i] : row, i, k);
      if (!p.turned) for (int e = 0; e < 8; e++) b[k + e][i] = row[e];
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
inline void product(float* d, int n, bool held, bool turned, bool left_turned, bool fresh, uint64_t a, uint64_t b, const uint32_t* left) {
  if (dk::block_dim.x % 128) fail("a product needs whole warpgroups");
  Thread& me = self();
  Group& g = groups[dk::cur->id / 128];
  if (!me.fenced) fail("a product without its fence (products_begin)");
  int after = -1;
  for (auto& r : me.running) if (r.d == d) after = r.product;
  if ((int)g.products.size() == me.joined) {
    Product p;
    p.n = n, p.held = held, p.turned = turned, p.left_turned = left_turned, p.fresh = fresh, p.a = a, p.b = b, p.after = after;
    p.sums = after < 0 ? std::make_shared<std::vector<float>>(64 * n) : g.products[after].sums;
    g.products.push_back(p);
  }
  Product& p = g.products[me.joined];
  if (p.n != n || p.held != held || p.turned != turned || p.left_turned != left_turned || p.fresh != fresh || p.a != a || p.b != b || p.after != after) fail("threads of a warpgroup disagree on a product");
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

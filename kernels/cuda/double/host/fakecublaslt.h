// fakecublaslt.h: a libcublasLt over the memory of fakecuda.cpp, in the same library.
//
// It checks every descriptor, size, alignment and piece of memory as the header documents them, and queues
// products on the driver's streams. It offers three algorithms, whose orders of sums differ from
// each other's and from our own kernels', so that tests see which one ran. fakelt_set makes it old, and
// makes its first algorithms (so many) break promises, on every device or on one.
#pragma once

namespace lt {
enum : int { GOOD, NOT_INITIALIZED = 1, INVALID = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum Fault : int {
  BY_BATCH = 1,   // a row's bits depend on how many rows there are
  BY_PLACE = 2,   // or on where it stands
  WRONG = 4,      // the last of k are left out
  UNSTEADY = 8,   // the second time it is another sum
  SPLIT = 16,     // sums across blocks are offered though they were not asked for
  NONE = 32,      // there is no algorithm
  REFUSES = 64,   // an algorithm does not do 5 rows, and says so when asked
  LATE = 128,     // the same, and says so only when run
  GREEDY = 256,   // algorithms need a large workspace
  BY_DEVICE = 1024,  // it is another sum, always: of one device among several
  BY_ADDRESS = 512,  // a row's bits depend on whether rows begin at a multiple of 256 bytes
};
enum : uint64_t { DESC = 0xde5c, LAYOUT = 0x1a40, WISH = 0x3151, ALGO = 0xa190 };
struct Desc { uint64_t magic = DESC; int compute, scale, transa = 0, transb = 0; };
struct Layout { uint64_t magic = LAYOUT; int type; int64_t rows, cols, ld; };
struct Wish { uint64_t magic = WISH, workspace = 0; unsigned mask = 7, align[4] = {256, 256, 256, 256}; };
struct Algo { uint64_t magic, id; int64_t splits; uint64_t scheme, workspace, more[3]; };
struct Result { Algo algo; size_t workspace; int state; float waves; int reserved[4]; };
static_assert(sizeof(Algo) == 64 && sizeof(Result) == 96, "as the header has them");

static int version = 130401, faults, faulty, only = -1, device, handles, objects;  // device: the one that is asked or computes
static uint64_t runs;

template <class T> static bool is(const void* p, uint64_t magic) { return p && ((const T*)p)->magic == magic; }
static int store(void* to, const void* from, size_t n, size_t want) { return from && n == want ? memcpy(to, from, n), GOOD : INVALID; }
static bool faulted(const Algo* a, int fault) { return (faults & fault) && (int)a->id <= faulty && (only < 0 || only == device); }

// fits says whether operands go together: D = op(A)·op(B), by columns.
static int fits(const Desc* d, const Layout* a, const Layout* b, const Layout* c, const Layout* e, int64_t* m, int64_t* n, int64_t* k) {
  if (!is<Desc>(d, DESC) || !is<Layout>(a, LAYOUT) || !is<Layout>(b, LAYOUT) || !is<Layout>(c, LAYOUT) || !is<Layout>(e, LAYOUT)) return INVALID;
  if (d->compute != 68 || d->scale != 0 || d->transb || a->type != 14 || b->type != 14 || c->type != 0 || e->type != 0) return NOT_SUPPORTED;
  *m = d->transa ? a->cols : a->rows, *k = d->transa ? a->rows : a->cols, *n = b->cols;
  if (b->rows != *k || e->rows != *m || e->cols != *n || c->rows != *m || c->cols != *n) return INVALID;
  if (a->ld < a->rows || b->ld < b->rows || e->ld < e->rows || *m < 1 || *n < 1 || *k < 1) return INVALID;
  // Rows at multiples of 16 bytes, as the fast kernels want them.
  return a->ld % 8 || b->ld % 8 || e->ld % 4 ? NOT_SUPPORTED : GOOD;
}

// dot is a sum over k in one of three orders, none of them ascending: that is what our own kernels come to
// on the double, since products of bf16 are exact.
static float chain(const float* x, const float* w, int64_t from, int64_t to, int64_t step) {
  float s = 0;
  for (int64_t k = from; k < to; k += step) s = __builtin_fmaf(x[k], w[k], s);
  return s;
}
static float dot(uint64_t order, const float* x, const float* w, int64_t k) {
  if (order == 1) return chain(x, w, 0, k / 2, 1) + chain(x, w, k / 2, k, 1);
  if (order == 2) return chain(x, w, 0, k, 2) + chain(x, w, 1, k, 2);
  return chain(x, w, 0, k / 4, 1) + chain(x, w, k / 4, k, 1);
}
static float wide(uint16_t h) { uint32_t u = (uint32_t)h << 16; float f; memcpy(&f, &u, 4); return f; }

static int compute(Desc d, Layout a, Layout b, Layout e, Algo algo, P pa, P pb, P pd, int64_t m, int64_t n, int64_t k) {
  auto extent = [](const Layout& l, size_t size) { return ((size_t)(l.cols - 1) * l.ld + l.rows) * size; };
  if (idle) return OK;
  if (!inside(memory, pa, extent(a, 2)) || !inside(memory, pb, extent(b, 2)) || !inside(memory, pd, extent(e, 4))) return ILLEGAL;
  const uint16_t *A = (const uint16_t*)pa, *B = (const uint16_t*)pb;
  std::vector<float> w(m * k), x(k);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < k; j++) w[i * k + j] = wide(d.transa ? A[i * a.ld + j] : A[j * a.ld + i]);
  int64_t used = faulted(&algo, WRONG) ? k - k / 4 : k;
  for (int64_t row = 0; row < n; row++) {
    for (int64_t j = 0; j < k; j++) x[j] = wide(B[row * b.ld + j]);
    bool other = (faulted(&algo, BY_BATCH) && n < 16) || (faulted(&algo, BY_PLACE) && row % 2) || (faulted(&algo, BY_ADDRESS) && pb % 256) || (faulted(&algo, UNSTEADY) && runs++ % 3) || faulted(&algo, BY_DEVICE);
    uint64_t order = other ? algo.id % 3 + 1 : algo.id;
    for (int64_t i = 0; i < m; i++) ((float*)pd)[row * e.ld + i] = dot(order, x.data(), &w[i * k], used);
  }
  return OK;
}
}  // namespace lt

extern "C" {
void fakelt_reset() { lt::version = 130401, lt::faults = lt::faulty = lt::handles = lt::objects = 0, lt::runs = 0, lt::only = -1; }
void fakelt_set(int version, int faults, int faulty) { LOCK; lt::version = version, lt::faults = faults, lt::faulty = faulty, lt::only = -1; }
void fakelt_only(int device) { LOCK; lt::only = device; }
long long fakelt_objects() { LOCK; return lt::objects + lt::handles; }

size_t cublasLtGetVersion() { return lt::version; }
int cublasLtCreate(void** h) { ENTER; return *h = new int(0), lt::handles++, lt::GOOD; }
int cublasLtDestroy(void* h) { ENTER; delete (int*)h; return lt::handles--, lt::GOOD; }
int cublasLtMatmulDescCreate(void** d, int compute, int scale) {
  ENTER;
  auto x = new lt::Desc;
  x->compute = compute, x->scale = scale, lt::objects++;
  return *d = x, lt::GOOD;
}
int cublasLtMatmulDescDestroy(void* d) { ENTER; return lt::is<lt::Desc>(d, lt::DESC) ? delete (lt::Desc*)d, lt::objects--, lt::GOOD : lt::INVALID; }
int cublasLtMatmulDescSetAttribute(void* d, int attribute, const void* v, size_t n) {
  ENTER;
  auto x = (lt::Desc*)d;
  if (!lt::is<lt::Desc>(d, lt::DESC)) return lt::INVALID;
  return attribute == 3 ? lt::store(&x->transa, v, n, 4) : attribute == 4 ? lt::store(&x->transb, v, n, 4) : lt::INVALID;
}
int cublasLtMatrixLayoutCreate(void** l, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  ENTER;
  auto x = new lt::Layout;
  x->type = type, x->rows = rows, x->cols = cols, x->ld = ld, lt::objects++;
  return *l = x, lt::GOOD;
}
int cublasLtMatrixLayoutDestroy(void* l) { ENTER; return lt::is<lt::Layout>(l, lt::LAYOUT) ? delete (lt::Layout*)l, lt::objects--, lt::GOOD : lt::INVALID; }
int cublasLtMatrixLayoutSetAttribute(void* l, int attribute, const void* v, size_t n) {
  ENTER;
  auto x = (lt::Layout*)l;
  if (!lt::is<lt::Layout>(l, lt::LAYOUT)) return lt::INVALID;
  return attribute == 2 ? lt::store(&x->rows, v, n, 8) : attribute == 3 ? lt::store(&x->cols, v, n, 8) : attribute == 4 ? lt::store(&x->ld, v, n, 8) : lt::INVALID;
}
int cublasLtMatmulPreferenceCreate(void** w) { ENTER; return *w = new lt::Wish, lt::objects++, lt::GOOD; }
int cublasLtMatmulPreferenceDestroy(void* w) { ENTER; return lt::is<lt::Wish>(w, lt::WISH) ? delete (lt::Wish*)w, lt::objects--, lt::GOOD : lt::INVALID; }
int cublasLtMatmulPreferenceSetAttribute(void* w, int attribute, const void* v, size_t n) {
  ENTER;
  auto x = (lt::Wish*)w;
  if (!lt::is<lt::Wish>(w, lt::WISH)) return lt::INVALID;
  if (attribute >= 5 && attribute <= 8) return lt::store(&x->align[attribute - 5], v, n, 4);
  return attribute == 1 ? lt::store(&x->workspace, v, n, 8) : attribute == 3 ? lt::store(&x->mask, v, n, 4) : lt::INVALID;
}
int cublasLtMatmulAlgoGetHeuristic(void* h, void* d, void* a, void* b, void* c, void* e, void* w, int most, lt::Result* to, int* n) {
  ENTER;
  int64_t m, cols, k;
  if (!h || most < 1 || !to || !n || !lt::is<lt::Wish>(w, lt::WISH)) return lt::INVALID;
  if (int s = lt::fits((lt::Desc*)d, (lt::Layout*)a, (lt::Layout*)b, (lt::Layout*)c, (lt::Layout*)e, &m, &cols, &k)) return s;
  auto wish = (lt::Wish*)w;
  lt::device = context->device;
  if (lt::faults & lt::NONE && (lt::only < 0 || lt::only == lt::device)) return lt::NOT_SUPPORTED;
  *n = 0;
  for (uint64_t id = 1; id <= 3 && *n < most; id++) {
    lt::Result r = {};
    r.algo = {lt::ALGO, id, 1};
    if (lt::faulted(&r.algo, lt::SPLIT)) r.algo.splits = 4, r.algo.scheme = 2;
    if (lt::faulted(&r.algo, lt::GREEDY)) r.algo.workspace = r.workspace = 1 << 25;
    for (unsigned align : wish->align)
      if (align < 16) r.state = lt::NOT_SUPPORTED;
    to[(*n)++] = r;
  }
  return lt::GOOD;
}
int cublasLtMatmulAlgoConfigGetAttribute(const lt::Algo* a, int attribute, void* v, size_t n, size_t* written) {
  ENTER;
  if (!lt::is<lt::Algo>(a, lt::ALGO) || !v || n != 4) return lt::INVALID;
  int x = attribute == 0 ? (int)a->id : attribute == 2 ? (int)a->splits : (int)a->scheme;
  return memcpy(v, &x, 4), written ? *written = 4 : 0, attribute == 0 || attribute == 2 || attribute == 3 ? lt::GOOD : lt::INVALID;
}
int cublasLtMatmulAlgoCheck(void* h, void* d, void* a, void* b, void* c, void* e, const lt::Algo* algo, lt::Result* to) {
  ENTER;
  int64_t m, n, k;
  if (!h || !to || !lt::is<lt::Algo>(algo, lt::ALGO)) return lt::INVALID;
  if (int s = lt::fits((lt::Desc*)d, (lt::Layout*)a, (lt::Layout*)b, (lt::Layout*)c, (lt::Layout*)e, &m, &n, &k)) return s;
  lt::device = context->device;
  to->workspace = algo->workspace, to->state = lt::GOOD;
  return lt::faulted(algo, lt::REFUSES) && n == 5 ? lt::NOT_SUPPORTED : lt::GOOD;
}
int cublasLtMatmul(void* h, void* d, const float* alpha, P a, void* al, P b, void* bl, const float* beta, P c, void* cl, P e, void* el,
                   const lt::Algo* algo, P workspace, size_t bytes, void* s) {
  ENTER;
  int64_t m, n, k;
  if (!h || !alpha || !beta || *alpha != 1 || *beta != 0 || c != e || !lt::is<lt::Algo>(algo, lt::ALGO) || algo->id < 1 || algo->id > 3) return lt::INVALID;
  if (int status = lt::fits((lt::Desc*)d, (lt::Layout*)al, (lt::Layout*)bl, (lt::Layout*)cl, (lt::Layout*)el, &m, &n, &k)) return status;
  if (a % 16 || b % 16 || e % 16 || algo->workspace > bytes || (bytes && !inside(memory, workspace, bytes))) return lt::INVALID;
  lt::device = context->device;
  if ((lt::faulted(algo, lt::LATE) || lt::faulted(algo, lt::REFUSES)) && n == 5) return lt::NOT_SUPPORTED;
  lt::Desc desc = *(lt::Desc*)d;
  lt::Layout A = *(lt::Layout*)al, B = *(lt::Layout*)bl, E = *(lt::Layout*)el;
  lt::Algo how = *algo;
  push(s, [=, of = stream(s)->device] { return lt::device = of, lt::compute(desc, A, B, E, how, a, b, e, m, n, k); });
  for (P p : {a, b, e})
    if (touches(stream(s), p)) return lt::INVALID;
  return lt::GOOD;
}
}

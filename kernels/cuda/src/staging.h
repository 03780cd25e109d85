// staging.h: how slices of operands come to shared memory, for the products on tensor cores of tensor.cu.
//
// An operand is read as it lies, in pieces of 8 elements that are neighbours in memory: along k (ROWS,
// PATCHES) or along i (COLUMNS, TAPS, TURNED). A tile keeps that order, and what lies along i is turned on
// its way to the registers (ldmatrix.trans), so the sums are the same either way. Pieces of bf16 are copied to
// their place; those of fp32 to a place of the thread's own, from which it rounds them to bf16 when they have
// come. Both go on beside the work, some slices ahead. What lies outside the operand, or beyond a run
// of k, is zeros.
//
// A thread has the same place in a line in all of its pieces, and lines that are STEP apart. What does not
// change from slice to slice is found out once: the loop over k is bound by instructions, too.
#pragma once
#include "product.h"

// A Slice is a place in k: its run, where that starts, how far in the slice lies and how much of the run
// is left from there on. Slices never span two runs.
struct Slice { int run, at, left; i64 start; };
DEV void next_run(const ProductArgs& a, Slice& s) {  // the next that has anything
  for (s.at = 0, s.left = 0; s.left <= 0 && ++s.run < (int)a.runs;) s.start = run_start(a, s.run), s.left = (int)(run_start(a, s.run + 1) - s.start);
}
DEV void advance(const ProductArgs& a, Slice& s, int depth) {
  s.at += depth, s.left -= depth;
  if (s.left <= 0) next_run(a, s);
}

// key moves the pieces of a line of WIDTH elements about (piece ^ key), so that those of eight lines that are
// read at once meet in no bank. It repeats after eight lines.
template <int WIDTH> DEV int key(int line) { return WIDTH == 32 ? (line >> 1) & 3 : line & 7; }

struct alignas(16) Four { float x[4]; };
struct alignas(16) Eight { uint32_t x[4]; };  // of bf16
DEV uint32_t rounded2(float lo, float hi) { return pack2(flush(lo), flush(hi)); }

// A Source brings TILE rows of an operand, from i0 on, DEPTH of k at a time.
template <int KIND, int TILE, int DEPTH, int STAGES, int THREADS> struct Source {
  static const bool PICTURE = KIND == PATCHES || KIND == SPREAD, BY_K = KIND == ROWS || PICTURE;
  static const int WIDTH = BY_K ? DEPTH : TILE, LINES = BY_K ? TILE : DEPTH, ACROSS = WIDTH / 8;
  static const int PIECES = LINES * ACROSS, EACH = PIECES / THREADS, STEP = THREADS / ACROSS, HELD = PICTURE ? EACH : 1;
  static_assert(STEP % 8 == 0 && EACH * THREADS == PIECES, "keys repeat after eight lines");

  const ProductArgs& a;
  const Operand& x;
  unsigned char* room;
  Spot raw, own;               // in the first slot: of the thread's first piece as it comes, of fp32; in a tile
  int place;                   // of own
  int line0, along;
  int live;                    // by k: lines from line0 on that the operand has; else elements of the piece
  i64 first[HELD], off;        // the thread's first element in the first slice, and how far this slice lies from there
  int top[HELD], left[HELD];   // PATCHES, SPREAD: a pixel's window; TAPS: the tap, and its channel
  int channel;

  MEMBER Source(const ProductArgs& args, const Operand& operand, i64 i0, i64 rows, unsigned char* shared)
      : a(args), x(operand), room(shared), line0(threadIdx.x / ACROSS), along(threadIdx.x % ACROSS * 8) {
    place = (line0 * WIDTH + ((along / 8 ^ key<WIDTH>(line0)) << 3)) * 2;
    own = spot_of(room + place), raw = spot_of(room + threadIdx.x * 16);
    i64 behind = BY_K ? rows - i0 - line0 : rows - i0 - along;
    live = behind < 0 ? 0 : behind > 1 << 20 ? 1 << 20 : (int)behind;
    if constexpr (KIND == ROWS)
      first[0] = (i0 + line0) * x.stride + along;
    else if constexpr (KIND == COLUMNS)
      first[0] = line0 * x.stride + i0 + along;
    else if constexpr (KIND == TURNED)
      first[0] = i0 + along;
    else if constexpr (KIND == TAPS) {
      uint32_t i = (uint32_t)(i0 + along), t = i / a.win.in;
      top[0] = live > 0 ? (int)(t / a.win.kw) - a.win.top : -(1 << 30);
      left[0] = (int)(t % a.win.kw) - a.win.left, channel = i % a.win.in;
    } else
      UNROLL for (int j = 0; j < EACH; j++) {
        uint32_t i = (uint32_t)(i0 + line0 + j * STEP), w = (uint32_t)(KIND == SPREAD ? a.win.w : a.win.ow), h = (uint32_t)(KIND == SPREAD ? a.win.h : a.win.oh);
        uint32_t q = i / w, n = q / h;
        int y = q - n * h, z = i - q * w;
        if constexpr (KIND == SPREAD) {
          top[j] = y + a.win.top - (a.win.kh - 1), left[j] = z + a.win.left - (a.win.kw - 1);
          first[j] = (i64)n * a.win.oh * a.win.ow * a.win.out;
        } else {
          top[j] = y * a.win.stride - a.win.top, left[j] = z * a.win.stride - a.win.left;
          first[j] = (i64)n * a.win.h * a.win.w * a.win.in;
        }
        if (j * STEP >= live) top[j] = -(1 << 30);  // outside
      }
  }
  MEMBER bool wide() const { return x.type == F32; }
  // bytes of shared memory; where the tile of turn t is, whose slice has a slot of its own.
  MEMBER int bytes() const { return (wide() ? STAGES * 2 + 2 : STAGES) * PIECES * 16; }
  MEMBER int tile(int t, int slot) const { return (wide() ? STAGES * 2 + (t & 1) : slot) * PIECES * 16; }

  // enter goes to a slice of another run, follow to the next of the same.
  MEMBER void enter(const Slice& s) {
    if constexpr (KIND == ROWS) off = s.run * x.pitch;
    if constexpr (KIND == COLUMNS) off = s.start * x.stride;
  }
  MEMBER void follow() { off += BY_K ? DEPTH : DEPTH * x.stride; }

  // pixel is the element at channel c of a pixel of a picture that begins at from, -1 outside.
  MEMBER i64 pixel(i64 from, int y, int q, int c) const {
    if (KIND == SPREAD && a.win.stride > 1) {
      if (y < 0 || q < 0 || y % a.win.stride || q % a.win.stride) return -1;
      y /= a.win.stride, q /= a.win.stride;
    }
    int h = KIND == SPREAD ? (int)a.win.oh : (int)a.win.h, w = KIND == SPREAD ? (int)a.win.ow : (int)a.win.w, channels = KIND == SPREAD ? a.win.out : a.win.in;
    return (uint32_t)y < (uint32_t)h && (uint32_t)q < (uint32_t)w ? from + ((i64)y * w + q) * channels + c : -1;
  }
  // each calls f with every piece of this thread: its number, its first element, whether there is any.
  template <class F> MEMBER void each(const Slice& s, F f) const {
    if constexpr (KIND == ROWS || KIND == COLUMNS) {
      int lines = BY_K ? (along < s.left ? live : 0) : (live > 0 ? s.left - line0 : 0);
      UNROLL for (int j = 0; j < EACH; j++) f(j, first[0] + off + j * STEP * x.stride, j * STEP < lines);
    } else if constexpr (PICTURE) {
      uint32_t channels = KIND == SPREAD ? a.win.out : a.win.in, o = s.at + along, t = o / channels, c = o - t * channels;
      UNROLL for (int j = 0; j < EACH; j++) {
        i64 at = pixel(first[j], top[j] + s.run, left[j] + (int)t, c);
        f(j, at, at >= 0 && along < s.left);
      }
    } else
      UNROLL for (int j = 0; j < EACH; j++) {
        int line = line0 + j * STEP;
        if constexpr (KIND == TURNED) {
          uint32_t k = (uint32_t)s.start + s.at + line, t = k / a.win.out, taps = a.win.kh * a.win.kw;
          f(j, first[0] + ((i64)(k - t * a.win.out) * taps + taps - 1 - t) * a.win.in, line < s.left && live > 0);
        } else {
          uint32_t o = s.at + line, y = o / (uint32_t)a.win.ow;
          i64 at = pixel((i64)s.run * a.win.h * a.win.w * a.win.in, (int)y * a.win.stride + top[0], (int)(o - y * a.win.ow) * a.win.stride + left[0], channel);
          f(j, at, at >= 0 && line < s.left);
        }
      }
  }
  // stage begins to copy a slice into a slot. Where lines do not end with a piece, the last is copied in part.
  MEMBER void stage(const Slice& s, int slot, i64 rows) const {
    Spot to = own + slot * PIECES * 16, wider = raw + slot * PIECES * 32;
    const uint16_t* narrow = (const uint16_t*)x.p;
    const float* p = (const float*)x.p;
    bool whole = KIND == ROWS ? s.left >= DEPTH || s.left % 8 == 0 : KIND != COLUMNS || rows % 8 == 0;
    if (whole && !wide())
      each(s, [&](int j, i64 at, bool there) { copy_async_at(to + j * STEP * WIDTH * 2, narrow + at, there ? 16 : 0); });
    else if (whole)
      each(s, [&](int j, i64 at, bool there) {
        copy_async_at(wider + j * THREADS * 16, p + at, there ? 16 : 0);
        copy_async_at(wider + (PIECES + j * THREADS) * 16, p + at + 4, there ? 16 : 0);
      });
    else
      each(s, [&](int j, i64 at, bool there) {
        int n = BY_K ? s.left - along : live;
        n = !there ? 0 : n < 8 ? n : 8;
        if (!there) at = 0;
        if (!wide()) return copy_async_at(to + j * STEP * WIDTH * 2, narrow + at, 2 * n);
        copy_async_at(wider + j * THREADS * 16, p + at, n < 4 ? 4 * n : 16);
        copy_async_at(wider + (PIECES + j * THREADS) * 16, p + at + (n > 4 ? 4 : 0), n > 4 ? 4 * n - 16 : 0);
      });
  }
  // convert rounds what this thread copied, when it has come. Two tiles take turns: when one is written
  // again, all threads have passed the barrier after the products with it.
  MEMBER void convert(int t, int slot) const {
    if (!wide()) return;
    const Four* from = (const Four*)(room + slot * PIECES * 32) + threadIdx.x;
    unsigned char* to = room + place + tile(t, slot);
    UNROLL for (int j = 0; j < EACH; j++) {
      Four u = from[j * THREADS], v = from[PIECES + j * THREADS];
      *(Eight*)(to + j * STEP * WIDTH * 2) = {{rounded2(u.x[0], u.x[1]), rounded2(u.x[2], u.x[3]), rounded2(v.x[0], v.x[1]), rounded2(v.x[2], v.x[3])}};
    }
  }
};

// Fragments reads a warp's part of tiles, from row i on: 16 rows by 16 of k at a time, as a left operand or as
// two right ones of 8 rows.
template <class S, bool RIGHT> struct Fragments {
  Spot from;
  int piece;
  MEMBER Fragments(const unsigned char* room, int i) {
    // Whether the four matrices of 8 x 8 come line by line, or the second beside the first.
    int lane = threadIdx.x & 31;
    bool down = S::BY_K != RIGHT;
    int line = down ? lane & 15 : (lane & 7) + (lane >> 4) * 8, beside = down ? lane >> 4 : (lane >> 3) & 1;
    piece = beside ^ key<S::WIDTH>(line) ^ (S::BY_K ? 0 : i / 8);
    from = spot_of(room + ((S::BY_K ? i : 0) + line) * S::WIDTH * 2);
  }
  // read takes the number-th 16 rows. What is added to a piece's number changes none of its lower bits.
  MEMBER void read(uint32_t* r, int tile, int number, int k) const {
    if constexpr (S::BY_K)
      load_matrix_at(r, from + tile + number * 16 * S::WIDTH * 2 + ((piece ^ k / 8) << 4));
    else
      load_matrix_turned_at(r, from + tile + k * S::WIDTH * 2 + ((piece ^ number * 2) << 4));
  }
};

// fakeorder.h: which work of several streams is in order, and what of it touches one memory; part of fakecuda.cpp.
//
// Streams run as late as they can, so a wait that is missing shows where its number is wrong. Here it shows in any case:
// each stream counts its work, an event holds the counts that its stream has seen, and who waits for it has seen them,
// too. Work that touches memory must have seen what touched it on other streams: all of it where it writes, what wrote
// where it reads. Of kernels only the addresses among their arguments are known. They count as reads, of the memory that
// a copy filled around them.
//
// Weights are what a stream brings that starts no kernel of its own but unpack: they come and are never copied back, and no more
// of them lie on a device than fakecuda_resident allows.
#pragma once

namespace order {
enum Fault { UNAWAITED, STILL_READ, COPIED_BACK, TOO_MANY, FAULTS };
static const char* words[FAULTS] = {"work reads memory whose copy it does not wait for", "memory is filled while queued work still reads it",
                                    "a weight is copied back", "more weights lie on the device than the ring has room for"};
using Clock = std::map<int, long>;  // by stream: how much of its work is over
struct Kind { bool first; long kernels; };
struct Range { P hi; int writer; long written; bool copied; Clock readers; };
static std::vector<Kind> kinds;  // of streams, by number
static std::map<P, Range> ranges;
static Clock host;  // what the program has waited for
static long faults[FAULTS];
static size_t most, peak;  // bytes of weights that may lie on a device, 0: any number; and that did

static void join(Clock& to, const Clock& from) {
  for (auto& f : from)
    if (long& t = to[f.first]; t < f.second) t = f.second;
}
static int fault(int device, Fault f, P p, size_t n) {
  fprintf(stderr, "fakecuda: %s: %zu bytes at %llx\n", words[f], n, p);
  return faults[f]++, lose(device, ILLEGAL);
}
static bool seen(const Clock& c, int stream, long time) {
  auto it = c.find(stream);
  return it != c.end() && it->second >= time;
}
static bool weight(const Range& r) { return r.copied && !kinds[r.writer].first && !kinds[r.writer].kernels; }
static void reset() { kinds.clear(), ranges.clear(), host.clear(), memset(faults, 0, sizeof faults), most = peak = 0; }
static void forget(P lo, size_t n) {
  auto it = ranges.lower_bound(lo);
  while (it != ranges.end() && it->first < lo + n) it = ranges.erase(it);
}
// first is the first range that ends behind p.
static std::map<P, Range>::iterator first(P p) {
  auto it = ranges.upper_bound(p);
  if (it != ranges.begin() && std::prev(it)->second.hi > p) --it;
  return it;
}
}  // namespace order

// touches is a read of p by the work that was queued last.
static int touches(Stream* s, P p) {
  auto it = order::first(p);
  if (it == order::ranges.end() || it->first > p) {
    if (!inside(memory, p, 1)) return OK;
    it = order::ranges.insert({p, {p + 1, -1, 0, false, {}}}).first;
  }
  order::Range& r = it->second;
  if (r.writer >= 0 && r.writer != s->id && !order::seen(s->clock, r.writer, r.written)) return order::fault(s->device, order::UNAWAITED, it->first, r.hi - it->first);
  return r.readers[s->id] = s->clock[s->id], OK;
}
// reads is a copy's read.
static int reads(Stream* s, P lo, size_t n, bool back) {
  for (auto it = order::first(lo); it != order::ranges.end() && it->first < lo + n; ++it) {
    if (back && order::weight(it->second)) return order::fault(s->device, order::COPIED_BACK, lo, n);
    if (int e = touches(s, it->first)) return e;
  }
  return OK;
}
// fills is a copy's write.
static int fills(Stream* s, P lo, size_t n) {
  using order::ranges;
  for (auto it = order::first(lo); it != ranges.end() && it->first < lo + n;) {
    order::Range r = it->second;
    P from = it->first;
    if (r.writer >= 0 && r.writer != s->id && !order::seen(s->clock, r.writer, r.written)) return order::fault(s->device, order::STILL_READ, lo, n);
    for (auto& reader : r.readers)
      if (reader.first != s->id && !order::seen(s->clock, reader.first, reader.second)) return order::fault(s->device, order::STILL_READ, lo, n);
    it = ranges.erase(it);
    if (from < lo) ranges[from] = r, ranges[from].hi = lo;
    if (r.hi > lo + n) it = ranges.insert({lo + n, r}).first;
  }
  if (!n) return OK;
  ranges[lo] = {lo + n, s->id, s->clock[s->id], true, {}};
  if (!order::weight(ranges[lo])) return OK;
  size_t all = 0;
  for (auto& r : ranges)
    if (order::weight(r.second) && owner_of(r.first) == s->device) all += r.second.hi - r.first;
  order::peak = std::max(order::peak, all);
  return order::most && all > order::most ? order::fault(s->device, order::TOO_MANY, lo, n) : OK;
}
// starts is a kernel, which touches what its arguments point to. One that unpacks fills its destination, as a copy does.
static int starts(Stream* s, const char* name, const std::string& args) {
  if (!strcmp(name, "dk_unpack")) {
    auto& a = *(const UnpackArgs*)args.data();
    size_t unit = a.dst.type == F32 ? 4 : 2;
    if (int e = fills(s, (P)a.dst.p, a.dst.rows ? ((size_t)(a.dst.rows - 1) * a.dst.stride + a.dst.cols) * unit : 0)) return e;
  } else {
    order::kinds[s->id].kernels++;
  }
  for (size_t i = 0; i + 8 <= args.size(); i += 8) {
    P p;
    memcpy(&p, args.data() + i, 8);
    if (inside(memory, p, 1))
      if (int e = touches(s, p)) return e;
  }
  return OK;
}

extern "C" {
void fakecuda_resident(size_t n) { LOCK; order::most = n; }
long long fakecuda_peak() { LOCK; return (long long)order::peak; }
long fakecuda_faults(int kind) { LOCK; return order::faults[kind]; }
}

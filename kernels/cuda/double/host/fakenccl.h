// fakenccl.h: a libnccl.so.2 over the double's streams, in the same library; part of fakecuda.cpp.
//
// A gathering runs when the streams of all its ranks have come to it, as late as the driver's double
// runs anything; a rank that does not come - its call is not in the group, its device is lost - keeps the
// others waiting on their devices, until their communicators are aborted. It is strict: calls for several
// devices must stand in a group, one for each device, of one size, with buffers of that device's memory; and
// aborting waits until all ranks have, as recent versions do. fakenccl_fault makes a rank's calls vanish, or
// a group's end hang.
#include <vector>

enum : int { NCCL_INTERNAL = 3, NCCL_ARGUMENT = 4, NCCL_USAGE = 5 };

struct Communicator;
struct Member { Communicator* all; int rank; bool aborted; };
struct Communicator { std::vector<int> devices; std::vector<Member> members; };
struct Gathering {  // one call of each rank
  struct Part { const void* from; void* into; Stream* stream; bool here; };
  Communicator* all;
  std::vector<Part> parts;
  size_t bytes;
  bool done;
};
struct Pending { Member* member; const void* from; void* into; size_t bytes; Stream* stream; };
static thread_local int nccl_depth;
static thread_local std::vector<Pending> nccl_pending;
static int nccl_version = 22105, nccl_absent = -1;
static bool nccl_stuck;
static std::string nccl_trouble;

static int nccl_says(int code, const char* why) { return nccl_trouble = why, code; }

// arrive is what a stream does when it comes to a gathering: the others' streams run up to it, too.
static int arrive(std::shared_ptr<Gathering> g, size_t rank) {
  g->parts[rank].here = true;
  if (g->done || g->all->members[rank].aborted) return OK;
  for (auto& part : g->parts) {
    if (!part.stream) return HANGS;
    while (!part.here && !part.stream->queue.empty())
      if (step(part.stream) == HANGS) return HANGS;
    if (!part.here || (!g->done && lost[part.stream->device])) return HANGS;
  }
  if (g->done) return OK;
  g->done = true, changed.notify_all();
  for (auto& to : g->parts)
    for (size_t r = 0; r < g->parts.size(); r++) memcpy((char*)to.into + r * g->bytes, g->parts[r].from, g->bytes);
  return OK;
}

static bool all_aborted(Communicator* all) {
  for (auto& m : all->members) if (!m.aborted) return false;
  return true;
}

static int launch_gathering(const std::vector<Pending>& calls) {
  Communicator* all = calls[0].member->all;
  auto g = std::make_shared<Gathering>();
  g->all = all, g->parts.resize(all->devices.size()), g->bytes = calls[0].bytes, g->done = false;
  for (auto& c : calls) {
    auto& part = g->parts[c.member->rank];
    if (c.member->all != all || part.stream || c.bytes != g->bytes) return nccl_says(NCCL_USAGE, "the calls of a group do not fit together");
    int device = all->devices[c.member->rank];
    if (!on_device(device, (P)c.from, c.bytes) || !on_device(device, (P)c.into, c.bytes * g->parts.size()) || c.stream->device != device)
      return nccl_says(NCCL_ARGUMENT, "a buffer or a stream is not of the rank's device");
    if (c.member->rank != nccl_absent) part = {c.from, c.into, c.stream, false};
  }
  for (size_t r = 0; r < g->parts.size(); r++)
    if (g->parts[r].stream) push(g->parts[r].stream, [=] { return arrive(g, r); });
  while (nccl_stuck && !all_aborted(all)) changed.wait(mu);
  return OK;
}

extern "C" {
void fakenccl_reset() { nccl_absent = -1, nccl_stuck = false; }
void fakenccl_fault(int absent, int stuck) { LOCK; nccl_absent = absent, nccl_stuck = stuck; }
void fakenccl_set(int version) { LOCK; nccl_version = version, nccl_trouble.clear(); }
int ncclGetVersion(int* v) { ENTER_FREE; return *v = nccl_version, OK; }
const char* ncclGetErrorString(int code) { return code == NCCL_USAGE ? "invalid usage" : code == NCCL_ARGUMENT ? "invalid argument" : "unhandled cuda error"; }
const char* ncclGetLastError(void*) { return nccl_trouble.c_str(); }
int ncclCommInitAll(Member** out, int n, const int* ids) {
  ENTER_FREE;
  auto all = new Communicator;
  for (int i = 0; i < n; i++) {
    if (ids[i] < 0 || ids[i] >= devices) return nccl_says(NCCL_ARGUMENT, "there is no such device");
    for (int d : all->devices) if (d == ids[i]) return nccl_says(NCCL_USAGE, "a device is there twice");
    all->devices.push_back(ids[i]);
    all->members.push_back({all, i, false});
  }
  for (int i = 0; i < n; i++) out[i] = &all->members[i];
  context = nullptr;  // the real one leaves another device current
  return OK;
}
int ncclCommDestroy(Member* m) { ENTER_FREE; return m->all ? m->all = nullptr, (int)OK : (int)NCCL_ARGUMENT; }
int ncclCommAbort(Member* m) {
  LOCK;
  context = nullptr;  // it makes its own device current
  if (int e = enter(__func__, false)) return e;
  if (!m->all || m->aborted) return NCCL_ARGUMENT;
  m->aborted = true, changed.notify_all();
  while (!all_aborted(m->all)) changed.wait(mu);
  return OK;
}
int ncclCommGetAsyncError(Member*, int* e) { LOCK; return *e = enter("ncclCommGetAsyncError", false), OK; }
int ncclGroupStart() { ENTER_FREE; return nccl_depth++, OK; }
int ncclGroupEnd() {
  LOCK;
  auto calls = std::move(nccl_pending);
  nccl_pending.clear();
  if (nccl_depth == 0) return nccl_says(NCCL_USAGE, "no group was begun");
  bool outer = --nccl_depth == 0;
  context = nullptr;
  if (int e = enter(__func__, false)) return e;
  return !outer || calls.empty() ? OK : launch_gathering(calls);
}
int ncclAllGather(const void* from, void* into, size_t count, int type, Member* m, void* s) {
  ENTER_FREE;
  if (!nccl_depth) return nccl_says(NCCL_USAGE, "several devices of one thread, and no group: it would wait for ever");
  if (!m || !m->all || m->aborted || type != 0) return NCCL_ARGUMENT;
  nccl_pending.push_back({m, from, into, count, stream(s)});
  return OK;
}
}

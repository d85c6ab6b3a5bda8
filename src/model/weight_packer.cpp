// One thread a huge page: the system clears a page when it is first written, and two threads that
// write the same one first would both clear it.
#include "model/weight_packer.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace reprise {
namespace {

using kernels::kPanelRows;
using kernels::PanelMatrix;

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kSlabBytes = std::size_t{64} << 20;
constexpr std::size_t kGroupBytes = std::size_t{1} << 20;   // of contents that are only hashed
constexpr std::size_t kStepBytes = std::size_t{128} << 10;  // hashed, then packed: fits a cache

std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::uintptr_t page_of(const std::uint8_t* address) {
  return reinterpret_cast<std::uintptr_t>(address) / kHugePage;
}

}  // namespace

std::size_t WeightPacker::taken_bytes() const {
  std::size_t bytes = 0;
  for (const MemoryBlock& slab : slabs_) bytes += slab.size();
  return bytes;
}

std::size_t WeightPacker::Job::source_bytes(int panel) const {
  return static_cast<std::size_t>(std::min(panel * kPanelRows, target.rows)) * source.row_bytes();
}

Result<std::uint8_t*> WeightPacker::reserve(std::size_t bytes) {
  bytes = round_up(bytes, 64);
  if (slabs_.empty() || slab_used_ + bytes > slabs_.back().size()) {
    const std::size_t size = std::clamp(bytes_left_, bytes, std::max(bytes, kSlabBytes));
    Result<MemoryBlock> slab =
        MemoryBlock::take(size > kHugePage ? round_up(size, kHugePage) : size);
    if (!slab) {
      return fail(slab.error().code,
                  fmt::format("weights: {}, beside {} that it gave, for about {} in all",
                              slab.error().message, taken_bytes(), bytes_));
    }
    slabs_.push_back(std::move(*slab));
    slab_used_ = 0;
  }
  std::uint8_t* const memory = slabs_.back().data() + slab_used_;
  slab_used_ += bytes;
  bytes_left_ -= std::min(bytes_left_, bytes);
  return memory;
}

void WeightPacker::add(const StoredMatrix& source, const PanelMatrix& target, std::uint8_t* panels,
                       Origin origin) {
  note(*origin.tensor);
  if (origin.whole) contents_[content_of_.at(origin.tensor)].is_hashed_by_jobs = true;
  jobs_.push_back({source, target, panels, origin});
}

void WeightPacker::note(const StoredTensor& tensor) {
  if (!content_of_.emplace(&tensor, contents_.size()).second) return;
  contents_.push_back({&tensor, ChunkedHash(tensor.bytes)});
}

std::string WeightPacker::digest(const StoredTensor& tensor) const {
  return contents_[content_of_.at(&tensor)].hash.digest();
}

void WeightPacker::add_piece(const Piece& piece, bool starts_group) {
  if (starts_group) groups_.push_back(pieces_.size());
  pieces_.push_back(piece);
}

// Panels that begin in the same huge page make a group.
void WeightPacker::cut_jobs() {
  std::uintptr_t last_page = 0;
  for (std::size_t job = 0; job < jobs_.size(); job++) {
    const PanelMatrix& target = jobs_[job].target;
    const auto count = static_cast<std::size_t>(target.panel_count());
    const std::size_t size = target.panel_bytes();
    for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
      const std::uintptr_t page = page_of(jobs_[job].panels + begin * size);
      while (end < count && page_of(jobs_[job].panels + end * size) == page) end++;
      add_piece({.job = static_cast<int>(job), .begin = begin, .end = end}, page != last_page);
      jobs_[job].pieces_left++;
      last_page = page;
    }
  }
}

// What no job reads in order is hashed by itself.
void WeightPacker::cut_contents() {
  constexpr std::size_t kChunks = kGroupBytes / ChunkedHash::kChunkBytes;
  std::size_t filled = kGroupBytes;
  for (std::size_t index = 0; index < contents_.size(); index++) {
    if (contents_[index].is_hashed_by_jobs) continue;
    const std::size_t chunks = contents_[index].hash.chunks();
    for (std::size_t begin = 0; begin < chunks; begin += kChunks) {
      const Piece piece{.content = index, .begin = begin, .end = std::min(begin + kChunks, chunks)};
      add_piece(piece, filled >= kGroupBytes);
      filled = (filled >= kGroupBytes ? 0 : filled) + bytes_of(piece);
    }
  }
}

std::size_t WeightPacker::bytes_of(const Piece& piece) const {
  if (piece.job < 0) {
    const std::size_t size = contents_[piece.content].tensor->bytes.size();
    return std::min(piece.end * ChunkedHash::kChunkBytes, size) -
           piece.begin * ChunkedHash::kChunkBytes;
  }
  const Job& job = jobs_[static_cast<std::size_t>(piece.job)];
  return job.source_bytes(static_cast<int>(piece.end)) -
         job.source_bytes(static_cast<int>(piece.begin));
}

void WeightPacker::run(ThreadPool& pool, const LoadProgress& progress) {
  cut_jobs();
  cut_contents();
  groups_.push_back(pieces_.size());
  std::size_t total = 0;
  for (const Piece& piece : pieces_) total += bytes_of(piece);
  std::atomic<std::size_t> done{0};
  const int groups = static_cast<int>(groups_.size()) - 1;
  pool.parallel_for(groups, [&](int group, int worker) {
    const auto first = static_cast<std::size_t>(group);
    std::size_t bytes = 0;
    for (std::size_t i = groups_[first]; i < groups_[first + 1]; i++) {
      pieces_[i].job < 0 ? hash(pieces_[i]) : pack(pieces_[i]);
      bytes += bytes_of(pieces_[i]);
    }
    const std::size_t now = done.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (worker == 0 && progress && now < total) progress(now, total);
  });
  if (progress) progress(total, total);
}

// A stretch of rows is hashed, then packed, while it is in the cache. Its file pages come in one
// go, and leave when they were read.
void WeightPacker::pack(const Piece& piece) {
  Job& job = jobs_[static_cast<std::size_t>(piece.job)];
  const int end = static_cast<int>(piece.end);
  int panel = static_cast<int>(piece.begin);
  const bool in_order = job.source.step == 0;
  const MappedFile* const file = in_order ? checkpoint_->file(*job.origin.tensor) : nullptr;
  const std::size_t offset =
      job.origin.tensor->offset + job.origin.offset + job.source_bytes(panel);
  if (file != nullptr) file->prefetch(offset, bytes_of(piece));
  const std::size_t panel_bytes = static_cast<std::size_t>(kPanelRows) * job.source.row_bytes();
  const int step = static_cast<int>(std::max<std::size_t>(1, kStepBytes / panel_bytes));
  while (panel < end) {
    const int next = std::min(end, panel + step);
    if (job.origin.whole) hash_between(job.origin, job.source_bytes(panel), job.source_bytes(next));
    pack_stored(job.source, job.target, panel, next, job.panels);
    panel = next;
  }
  if (file != nullptr) file->release(offset, bytes_of(piece));
  if (!in_order) release_turned(job);
}

// Every piece of a turned matrix reads from all of its file pages: they leave with the last one.
void WeightPacker::release_turned(Job& job) {
  if (std::atomic_ref(job.pieces_left).fetch_sub(1, std::memory_order_relaxed) > 1) return;
  const StoredTensor& tensor = *job.origin.tensor;
  const auto skipped = static_cast<std::size_t>(job.source.bytes.data() - tensor.bytes.data());
  if (const MappedFile* const file = checkpoint_->file(tensor); file != nullptr) {
    file->release(tensor.offset + skipped, job.source.bytes.size());
  }
}

// The chunks that begin in bytes [begin, end) of a matrix.
void WeightPacker::hash_between(const Origin& origin, std::size_t begin, std::size_t end) {
  ChunkedHash& hash = contents_[content_of_.at(origin.tensor)].hash;
  const std::size_t last =
      (origin.offset + end + ChunkedHash::kChunkBytes - 1) / ChunkedHash::kChunkBytes;
  std::size_t chunk =
      (origin.offset + begin + ChunkedHash::kChunkBytes - 1) / ChunkedHash::kChunkBytes;
  for (; chunk < last; chunk++) hash.hash(chunk);
}

void WeightPacker::hash(const Piece& piece) {
  Content& content = contents_[piece.content];
  const MappedFile* const file = checkpoint_->file(*content.tensor);
  const std::size_t offset = content.tensor->offset + piece.begin * ChunkedHash::kChunkBytes;
  if (file != nullptr) file->prefetch(offset, bytes_of(piece));
  for (std::size_t chunk = piece.begin; chunk < piece.end; chunk++) content.hash.hash(chunk);
  if (file != nullptr) file->release(offset, bytes_of(piece));
}

}  // namespace reprise

// The snapshot contract (docs/snapshot_format.md): one layer's, or a whole sequence's, state as
// ordered named tensors. Every attention kind; written in one canonical form, read from any valid
// one. Everything is checked before anything is built (law L5).
#pragma once
#include <span>
#include <vector>

#include "base/error.h"
#include "kv/sequence_cache.h"
#include "kv/snapshot_layer.h"
#include "kv/state_snapshot.h"

namespace reprise {

// Whether sequences of this layout may be snapshotted: their KV mode is fp16.
bool supports_snapshot_reuse(const KvLayout& layout);
// Why they may not. Errors: unsupported; names family, the first refused layer, its kind, its mode.
Status check_snapshot_mode(const KvLayout& layout, const SnapshotWords& words);

// ---- one layer ----

// Appends the layer's tensors in canonical form: live tokens in chronological order; nothing for a
// layer that owns no keys and values. Errors: unsupported (its KV mode).
Status snapshot_into(const SequenceCache& cache, int layer, const SnapshotWords& words,
                     StateSnapshot& snapshot);
// The layer as the snapshot holds it, all checks made; build_sequence() puts layers into pages.
// `layout` and `snapshot` must outlive it. Cutting it: LayerState::snapshot_truncatable_to(target)
// and truncate_to(target). Errors: see restore_sequence.
Result<LayerState> restore_from(const StateSnapshot& snapshot, int layer,
                                const SnapshotWords& words, const KvLayout& layout);
// A sequence on new pages from one state a layer (all at one offset, of the pool's layout; the
// entry of a layer that owns nothing is not looked at). Errors: exhausted, with nothing taken.
Result<SequenceCache> build_sequence(std::span<const LayerState> layers, const SnapshotWords& words,
                                     PagePool& pool);

// ---- a whole sequence ----

// Errors: unsupported (the KV mode may not be snapshotted).
Result<StateSnapshot> snapshot_sequence(const SequenceCache& cache, const SnapshotWords& words);

// Checks everything, then builds a sequence with pages of its own. Errors: invalid_argument,
// corrupt, unsupported (each names family, layer, kind, field, got and expected); exhausted (no
// room).
Result<SequenceCache> restore_sequence(const StateSnapshot& snapshot, const SnapshotWords& words,
                                       PagePool& pool);

// Whether every layer holds what resuming at `target` needs (law L3). Reads scalars and shapes
// only.
bool snapshot_truncatable_to(const StateSnapshot& snapshot, const SnapshotWords& words,
                             const KvLayout& layout, Position target);

// A sequence of the first `target` tokens, of what a cache there keeps. Errors: those of
// restore_sequence, and of LayerState::truncate_to where some layer cannot go back so far.
Result<SequenceCache> restore_sequence_truncated(const StateSnapshot& snapshot,
                                                 const SnapshotWords& words, PagePool& pool,
                                                 Position target);

}  // namespace reprise

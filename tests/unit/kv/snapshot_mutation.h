// Damage to snapshots: tensors dropped, repeated, renamed, reshaped, re-typed, scalars moved, bytes
// changed. Every choice comes from `source.below(count)`: random numbers, or a fuzzer's bytes.
#pragma once
#include <limits>

#include "unit/kv/snapshot_support.h"

namespace reprise::test {

inline std::size_t bytes_for(const NamedTensor& tensor) {
  std::size_t bytes = snapshot_dtype_bytes(tensor.dtype);
  for (const std::int64_t extent : tensor.shape)
    bytes *= static_cast<std::size_t>(std::clamp<std::int64_t>(extent, 0, 100));
  return bytes;
}

template <class Source>
class Mutator {
 public:
  Mutator(StateSnapshot& snapshot, Source& source) : snapshot_(snapshot), source_(source) {}

  void mutate() {
    if (snapshot_.tensors.empty()) return;
    const std::size_t at = pick();
    NamedTensor& tensor = snapshot_.tensors[at];
    switch (source_.below(12)) {
      case 0:
        snapshot_.tensors.erase(snapshot_.tensors.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1: {
        NamedTensor copy = tensor;
        snapshot_.tensors.push_back(std::move(copy));
        break;
      }
      case 2:
        rename(tensor);
        break;
      case 3:
        reshape(tensor, 0);
        break;
      case 4:
        retype(tensor);
        break;
      case 5:
        std::swap(tensor, snapshot_.tensors[pick()]);
        break;
      case 6:
        snapshot_.token_length += source_.below(5) - 2;
        break;
      case 7:
        change_byte(tensor);
        break;
      case 8:
        reshape_both(tensor);
        break;
      default:
        move_scalar(tensor);
        break;
    }
  }

 private:
  std::size_t pick() {
    return static_cast<std::size_t>(
        source_.below(static_cast<std::int64_t>(snapshot_.tensors.size())));
  }

  void rename(NamedTensor& tensor) {
    const std::size_t dot = tensor.name.find('.');
    switch (source_.below(4)) {
      case 0:
        tensor.name = snapshot_.tensors[pick()].name;
        break;
      case 1:
        if (dot != std::string::npos)
          tensor.name = "layer" + std::to_string(source_.below(9)) + tensor.name.substr(dot);
        break;
      case 2:
        tensor.name += "s";
        break;
      default:
        if (!tensor.name.empty()) tensor.name.pop_back();
        break;
    }
  }

  // With bytes that fit, or as they are. A change of 0 is one of the source's.
  void reshape(NamedTensor& tensor, std::int64_t change) {
    if (source_.below(8) == 0) {
      tensor.shape.push_back(1);
      return;
    }
    if (tensor.shape.empty()) return;
    const auto axis =
        static_cast<std::size_t>(source_.below(static_cast<std::int64_t>(tensor.shape.size())));
    tensor.shape[axis] += change != 0 ? change : source_.below(9) - 4;
    if (source_.below(4) != 0) tensor.bytes.resize(bytes_for(tensor));
  }

  // The third dimension of a layer's keys and values alike: more or less slack, or a cut.
  void reshape_both(NamedTensor& tensor) {
    const std::size_t dot = tensor.name.rfind('.');
    if (dot == std::string::npos) return;
    const std::int64_t change = source_.below(9) - 4;
    for (const char* field : {".keys", ".values"}) {
      NamedTensor* buffer = tensor_of(snapshot_, tensor.name.substr(0, dot) + field);
      if (buffer == nullptr || buffer->shape.size() != 4) continue;
      buffer->shape[2] = std::max<std::int64_t>(0, buffer->shape[2] + change);
      buffer->bytes.resize(bytes_for(*buffer));
    }
  }

  void retype(NamedTensor& tensor) {
    tensor.dtype = static_cast<SnapshotDtype>(source_.below(4));
    if (source_.below(2) == 0) tensor.bytes.resize(bytes_for(tensor));
  }

  void change_byte(NamedTensor& tensor) {
    if (tensor.bytes.empty()) return;
    const auto at =
        static_cast<std::size_t>(source_.below(static_cast<std::int64_t>(tensor.bytes.size())));
    tensor.bytes[at] = static_cast<std::byte>(source_.below(256));
  }

  void move_scalar(NamedTensor& tensor) {
    if (tensor.dtype != SnapshotDtype::i32 || tensor.bytes.size() != 4) return;
    constexpr std::int32_t kEdges[] = {0,
                                       1,
                                       2,
                                       6,
                                       8,
                                       12,
                                       15,
                                       16,
                                       17,
                                       24,
                                       40,
                                       255,
                                       256,
                                       -1,
                                       -2,
                                       127,
                                       128,
                                       1000,
                                       -256,
                                       std::numeric_limits<int>::max(),
                                       std::numeric_limits<int>::min()};
    std::int32_t value = 0;
    std::memcpy(&value, tensor.bytes.data(), 4);
    if (source_.below(2) == 0) {
      value = kEdges[source_.below(static_cast<std::int64_t>(std::size(kEdges)))];
    } else {
      value = static_cast<std::int32_t>(static_cast<std::uint32_t>(value) +
                                        static_cast<std::uint32_t>(source_.below(9) - 4));
    }
    std::memcpy(tensor.bytes.data(), &value, 4);
  }

  StateSnapshot& snapshot_;
  Source& source_;
};

}  // namespace reprise::test

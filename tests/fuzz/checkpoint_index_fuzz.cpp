// Fuzzes model.safetensors.index.json: any text is refused in one line or leads to a checkpoint of
// exactly the files that lie beside it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "model/checkpoint.h"
#include "model/checkpoint_files.h"
#include "support/safetensors_exercise.h"
#include "support/safetensors_writer.h"

namespace {

using reprise::testing::SafetensorsWriter;
using reprise::testing::TemporaryFolder;

// config.json and two files, written once; only the index changes.
class IndexedFolder {
 public:
  IndexedFolder() {
    folder_.write("config.json", "{}");
    write_part("model-00001-of-00002.safetensors", {"a", "b"});
    write_part("model-00002-of-00002.safetensors", {"c"});
  }
  void try_index(std::string_view json) const {
    const auto index = reprise::parse_safetensors_index(json);
    if (!index) return reprise::testing::check_line(index.error().message);
    CHECK(!index->files.empty() && !index->file_of_tensor.empty());
    for (const std::string& file : index->files) {
      CHECK(file.find('/') == file.npos && file.find("..") == file.npos);
    }
    folder_.write("model.safetensors.index.json", json);
    const auto checkpoint = reprise::Checkpoint::open(folder_.path());
    if (!checkpoint) return;
    for (const auto& [tensor, file] : index->file_of_tensor) {
      CHECK(checkpoint->find(tensor) != nullptr);
    }
    CHECK(checkpoint->tensors().size() <= 3);
  }

 private:
  void write_part(std::string_view name, const std::vector<std::string>& tensors) const {
    SafetensorsWriter writer;
    for (const std::string& tensor : tensors) {
      writer.add_f32(tensor, {2}, std::vector<float>{1, 2});
    }
    folder_.write(name, writer.finish());
  }

  TemporaryFolder folder_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const IndexedFolder folder;
  folder.try_index({reinterpret_cast<const char*>(data), size});
  return 0;
}

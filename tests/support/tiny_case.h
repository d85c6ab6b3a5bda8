// Tiny models of every family as tests/golden/tiny describes them: weights from a rule that
// tools/goldens/tiny_weights.py follows too, the files they can be stored as, and what transformers
// says of them. The descriptions are data; nothing here knows a family.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/types.h"

namespace reprise::testing {

struct TinyTensor {
  std::vector<std::int64_t> shape;  // row-major, outermost first
  std::vector<float> values;
};

class TinyCase {
 public:
  // "gemma3", "llama4_scout" ... Trouble with the file ends the test program.
  explicit TinyCase(const std::string& name);

  const std::string& name() const { return name_; }
  int vocabulary() const { return vocabulary_; }
  // 40 tokens; windows and chunks are 8.
  const std::vector<TokenId>& ids() const { return ids_; }

  // "hf" (float32), and where they exist "hf_bf16", "mlx4", "gguf".
  std::vector<std::string> forms() const;
  bool has_form(std::string_view form) const;
  // The description of a form: container, config or metadata, tensors.
  const JsonObject& form(std::string_view form) const;
  // [ids, vocabulary] of one full forward of transformers, float32, with the weights as a reader of
  // the form gets them.
  std::vector<float> logits(std::string_view form) const;

  // A tensor of the case by its Hugging Face name, made anew.
  TinyTensor tensor(std::string_view name) const;
  // What an entry of a form's "tensors" stores, before its type rounds it.
  TinyTensor stored(const JsonObject& entry) const;

 private:
  std::string name_;
  JsonObject description_;
  std::uint64_t seed_ = 0;
  int vocabulary_ = 0;
  std::vector<TokenId> ids_;
};

// All cases, sorted; and the forms of one without making it.
std::vector<std::string> tiny_cases();
std::vector<std::string> tiny_forms(const std::string& name);
// Where the descriptions lie.
std::filesystem::path tiny_golden_folder();

// Elements [0, values.size()) of the tensor `name`: centre + spread * u, u in [-1, 1) with 24 bits.
void generate_tiny_weights(std::string_view name, std::uint64_t seed, float centre, float spread,
                           std::vector<float>& values);

}  // namespace reprise::testing

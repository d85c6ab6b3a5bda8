// Tiny checkpoints written, opened and loaded.
#include "support/tiny_family.h"

#include <fmt/core.h>

#include "base/check.h"
#include "support/safetensors_writer.h"

namespace reprise::testing {

std::vector<FamilyForm> all_family_forms() {
  std::vector<FamilyForm> forms;
  for (const std::string& name : tiny_cases()) {
    for (const std::string& form : tiny_forms(name)) forms.emplace_back(name, form);
  }
  return forms;
}

std::string name_of(const FamilyForm& form) {
  return form.first + "_" + form.second;
}

std::unique_ptr<Model> load_family(const FamilyForm& form, ThreadPool& pool,
                                   const ModelOptions& options,
                                   const TinyCheckpointOptions& files) {
  const TemporaryFolder folder;
  const TinyCase tiny(form.first);
  const auto path = write_tiny_checkpoint(tiny, form.second, folder.path(), files);
  Result<Checkpoint> checkpoint = Checkpoint::open(path);
  if (!checkpoint) fmt::print(stderr, "{}: {}\n", name_of(form), checkpoint.error().message);
  CHECK(checkpoint.has_value());
  Result<Model> model =
      Model::load(std::make_unique<const Checkpoint>(std::move(*checkpoint)), pool, options);
  if (!model) fmt::print(stderr, "{}: {}\n", name_of(form), model.error().message);
  CHECK(model.has_value());
  return std::make_unique<Model>(std::move(*model));
}

}  // namespace reprise::testing

// Models of every family in every form, loaded the way a user's files are (tiny_case.h).
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "model/model.h"
#include "support/tiny_checkpoint.h"

namespace reprise::testing {

// A case and one of its forms ("llama4", "mlx4").
using FamilyForm = std::pair<std::string, std::string>;
std::vector<FamilyForm> all_family_forms();
// "llama4_mlx4", for names of parameterised tests.
std::string name_of(const FamilyForm& form);

// Writes the files, loads the model. Trouble ends the test program.
std::unique_ptr<Model> load_family(const FamilyForm& form, ThreadPool& pool,
                                   const ModelOptions& options = {},
                                   const TinyCheckpointOptions& files = {});

}  // namespace reprise::testing

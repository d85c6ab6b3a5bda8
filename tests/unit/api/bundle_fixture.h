// A tiny random model's bundle, without an engine.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "api/bundle.h"
#include "base/file.h"
#include "support/tiny_model.h"

namespace reprise::testing {

class BundleOnlyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() /
        ("reprise_bundle_only_" + std::to_string(::getpid()) + ".gguf");
    const std::vector<std::byte> bytes = tiny_gguf({});
    ASSERT_TRUE(write_file_atomic(
        path, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
    Result<Bundle> loaded = Bundle::load(path, pool, {});
    std::filesystem::remove(path);
    ASSERT_TRUE(loaded) << loaded.error().message;
    bundle = std::make_unique<Bundle>(std::move(*loaded));
  }

  ThreadPool pool{1};
  std::unique_ptr<Bundle> bundle;
};

}  // namespace reprise::testing

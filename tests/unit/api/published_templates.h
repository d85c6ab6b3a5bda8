// The families' published chat templates, which tools/fetch_templates fetches.
#pragma once
#include <cstdlib>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "api/prompt_writer.h"
#include "base/file.h"

namespace reprise::testing {

// A fixture whose writer() makes a prompt writer of a template and its family. Its tests are
// skipped where REPRISE_TEMPLATES names no folder.
template <class Fixture>
class PublishedTemplates : public Fixture {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("REPRISE_TEMPLATES");
    if (folder == nullptr) GTEST_SKIP() << "REPRISE_TEMPLATES names no folder of fetch_templates";
    folder_ = folder;
  }
  PromptWriter published(const std::string& name, std::string_view family) const {
    const auto source = read_file(folder_ + "/" + name + ".jinja", 1 << 20);
    EXPECT_TRUE(source) << source.error().message;
    return this->writer(*source, family);
  }
  std::string folder_;
};

}  // namespace reprise::testing

// The list of families.
#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "model/family.h"

namespace reprise {
namespace {

constexpr std::array kFamilies = {&kGemma3Family, &kGemma4Family,      &kAfmoeFamily,
                                  &kLlama4Family, &kMuseGlimmerFamily, &kLlamaFamily,
                                  &kQwen2Family,  &kQwen3Family,       &kQwen3MoeFamily};

bool reads(const FamilyEntry& family, const Settings& settings) {
  if (settings.is_gguf()) return family.architecture == settings.architecture();
  return std::ranges::find(family.model_types, settings.architecture()) != family.model_types.end();
}

}  // namespace

Result<const FamilyEntry*> find_family(const Settings& settings) {
  std::string known;
  const auto list = [&](std::string_view name) {
    if (!name.empty()) known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  };
  for (const FamilyEntry* family : kFamilies) {
    if (!settings.architecture().empty() && reads(*family, settings)) return family;
    if (settings.is_gguf()) {
      list(family->architecture);
    } else {
      for (const std::string_view type : family->model_types) list(type);
    }
  }
  const std::string key = settings.is_gguf() ? "general.architecture" : "model_type";
  return fail(Errc::unsupported,
              fmt::format("{} \"{}\" is not supported (supported: {})",
                          settings.is_gguf() ? "architecture" : "model_type",
                          settings.architecture(), known),
              key);
}

const FamilyEntry* find_family_by_tag(std::string_view tag) {
  const auto found = std::ranges::find(kFamilies, tag, &FamilyEntry::tag);
  return found == kFamilies.end() ? nullptr : *found;
}

}  // namespace reprise

// `reprise inspect`: hyper-parameters, span groups, tensor types and memory of a model (headers are
// read, no weight is loaded), or what a snapshot file holds.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/counted.h"
#include "cli/stack.h"
#include "kv/snapshot_file.h"
#include "model/checkpoint.h"
#include "model/family.h"

namespace reprise {
namespace {

const char* span_name(SpanKind kind) {
  switch (kind) {
    case SpanKind::standard:
      return "full";
    case SpanKind::rotating:
      return "window";
    case SpanKind::chunked:
      return "chunk";
  }
  return "";
}

// A number that layers may differ in: "256", or "256 to 512".
std::string spread(const ModelConfig& config, int (*of_layer)(const LayerConfig&)) {
  int least = of_layer(config.layers[0]), most = least;
  for (const LayerConfig& layer : config.layers) {
    least = std::min(least, of_layer(layer));
    most = std::max(most, of_layer(layer));
  }
  return least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
}

void print_config(const ModelConfig& config) {
  fmt::print("architecture   {} (family {})\n", config.architecture, config.family);
  fmt::print("name           {}\n", config.name);
  fmt::print("context        {} tokens\n", config.context_length);
  fmt::print("layers         {}\n", config.layers.size());
  fmt::print("hidden         {}, feed-forward {}\n", config.hidden,
             spread(config, [](const LayerConfig& layer) { return layer.feed_forward; }));
  fmt::print("heads          {}, kv heads {}, head dim {}\n",
             spread(config, [](const LayerConfig& layer) { return layer.heads; }),
             spread(config, [](const LayerConfig& layer) { return layer.kv_heads; }),
             spread(config, [](const LayerConfig& layer) { return layer.head_dim; }));
  if (config.experts.count > 0) {
    fmt::print("experts        {} of {}, feed-forward {}\n", config.experts.used,
               config.experts.count, config.experts.feed_forward);
  }
  fmt::print("vocabulary     {}{}\n", config.vocabulary,
             config.tied_embeddings ? ", tied head" : "");
}

void print_span_groups(const ModelConfig& config) {
  constexpr Position kTokens = 1000;
  const KvLayout layout = config.kv_layout(kernels::KvType::f16);
  fmt::print("span groups (keys and values as f16):\n");
  for (const SpanGroup& group : layout.groups) {
    const std::string size =
        group.span.kind == SpanKind::standard ? "" : fmt::format(" {}", group.span.size);
    fmt::print("  {}{}: {} layers, {} kv heads x ({} + {}), {} bytes a token\n",
               span_name(group.span.kind), size, group.layers.size(), group.kv_heads,
               group.shape.head_dim, group.shape.value_dim,
               group.page_bytes() / static_cast<std::size_t>(kPagePositions));
  }
  for (const Position tokens : {kTokens, 8 * kTokens, 32 * kTokens}) {
    if (tokens > config.context_length) break;
    fmt::print("  memory of {} tokens: {:.1f} MiB\n", tokens,
               static_cast<double>(layout.sequence_bytes(tokens)) / (1 << 20));
  }
}

void print_tensor_types(const Checkpoint& checkpoint) {
  std::map<std::string_view, std::pair<int, std::size_t>> types;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    auto& [count, bytes] = types[tensor.type_name];
    count++;
    bytes += tensor.bytes.size();
  }
  fmt::print("tensors        {}\n", checkpoint.tensors().size());
  for (const auto& [name, type] : types) {
    fmt::print("  {:6} {:>12}, {:.1f} MiB\n", name, counted(type.first, "tensor"),
               static_cast<double>(type.second) / (1 << 20));
  }
}

// "4 bits in groups of 64, 3 tensors in 8 bits in groups of 32": MLX's scheme in config.json; empty
// where there is none.
std::string quantization_words(const Settings& settings) {
  const JsonValue* value = settings.json("quantization");
  if (value == nullptr) value = settings.json("quantization_config");
  if (value == nullptr || !value->is_object()) return {};
  const auto words_of = [](const JsonObject& scheme) -> std::string {
    const JsonValue* bits = scheme.if_contains("bits");
    const JsonValue* group = scheme.if_contains("group_size");
    if (bits == nullptr || group == nullptr || !bits->is_number() || !group->is_number()) return {};
    return fmt::format("{} bits in groups of {}", bits->to_number<double>(),
                       group->to_number<double>());
  };
  std::string words = words_of(value->get_object());
  std::map<std::string, int> others;  // of tensors with a scheme of their own
  for (const auto& member : value->get_object()) {
    if (!member.value().is_object()) continue;
    const std::string other = words_of(member.value().get_object());
    if (!other.empty() && other != words) others[other]++;
  }
  for (const auto& [other, count] : others)
    words += fmt::format("{}{} in {}", words.empty() ? "" : ", ", counted(count, "tensor"), other);
  return words;
}

// A snapshot of a sequence (docs/snapshot_format.md).
int inspect_snapshot(const std::string& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file) return report(file.error());
  const Result<StateSnapshot> snapshot = read_snapshot(file->bytes());
  if (!snapshot) return report(snapshot.error());
  fmt::print("file           {} (snapshot of a sequence)\n", path);
  for (const std::string& line : describe_snapshot(*snapshot)) fmt::print("{}\n", line);
  return 0;
}

// A safetensors file that stands alone holds a snapshot; beside a config.json it is a model's.
bool is_snapshot(const std::filesystem::path& path) {
  return path.extension() == ".safetensors" &&
         !std::filesystem::exists(path.parent_path() / "config.json");
}

}  // namespace

int run_inspect(const Options& options) {
  if (const Status log = configure_log(options.log_level); !log) return report(log.error());
  if (is_snapshot(options.model)) return inspect_snapshot(options.model);
  const Result<Checkpoint> checkpoint = Checkpoint::open(options.model);
  if (!checkpoint) return report(checkpoint.error());
  const std::string format = checkpoint->gguf() != nullptr
                                 ? fmt::format("GGUF v{}", checkpoint->gguf()->version())
                                 : std::string("safetensors");
  fmt::print("file           {} ({})\n", options.model, format);
  const Result<Settings> settings = Settings::read(*checkpoint);
  if (!settings) return report(settings.error());
  const Result<const FamilyEntry*> family = find_family(*settings);
  if (!family) return report(family.error());
  const Result<ModelConfig> config = (*family)->read_config(*settings);
  if (!config) return report(config.error());
  print_config(*config);
  print_span_groups(*config);
  print_tensor_types(*checkpoint);
  if (!settings->is_gguf()) {
    const std::string words = quantization_words(*settings);
    if (!words.empty()) fmt::print("quantisation   MLX affine, {}\n", words);
  }
  return 0;
}

}  // namespace reprise

// `reprise inspect`: hyper-parameters, span groups, tensor types and memory of a model file. Reads
// the header only; no weight is loaded.
#include <map>
#include <string>

#include <fmt/core.h>

#include "cli/commands.h"
#include "cli/stack.h"
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

void print_config(const ModelConfig& config) {
  fmt::print("architecture   {} (family {})\n", config.architecture, config.family);
  fmt::print("name           {}\n", config.name);
  fmt::print("context        {} tokens\n", config.context_length);
  fmt::print("layers         {}\n", config.layers.size());
  fmt::print("hidden         {}, feed-forward {}\n", config.hidden, config.feed_forward);
  fmt::print("heads          {}, kv heads {}, head dim {}\n", config.layers[0].heads,
             config.layers[0].kv_heads, config.layers[0].head_dim);
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

void print_tensor_types(const GgufFile& file) {
  std::map<std::string, std::pair<int, std::size_t>> types;
  for (const GgufTensor& tensor : file.tensors()) {
    auto& [count, bytes] = types[ggml_type_name(tensor.type_id)];
    count++;
    bytes += tensor.bytes.size();
  }
  fmt::print("tensors        {}\n", file.tensors().size());
  for (const auto& [name, type] : types) {
    fmt::print("  {:6} {:4} tensors, {:.1f} MiB\n", name, type.first,
               static_cast<double>(type.second) / (1 << 20));
  }
}

}  // namespace

int run_inspect(const Options& options) {
  const Result<GgufFile> file = GgufFile::open(options.model);
  if (!file) return report(file.error());
  fmt::print("file           {} (GGUF v{})\n", options.model, file->version());
  const auto architecture = file->text("general.architecture");
  if (!architecture) return report(architecture.error());
  const Result<const FamilyEntry*> family = find_family(architecture->value_or(""));
  if (!family) return report(family.error());
  const Result<ModelConfig> config = (*family)->read_config(*file);
  if (!config) return report(config.error());
  print_config(*config);
  print_span_groups(*config);
  print_tensor_types(*file);
  return 0;
}

}  // namespace reprise

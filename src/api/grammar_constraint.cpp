// Grammars for replies, and who is at fault when there is none.
#include "api/grammar_constraint.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include <fmt/core.h>

#include "api/prepare.h"
#include "base/log.h"
#include "text/schema_hints.h"

namespace reprise {
namespace {

using Constraints = std::vector<std::unique_ptr<TokenConstraint>>;

// What a client can write better is its fault, also what this server cannot do.
ApiError refused_grammar(const Error& error, const std::string& param) {
  switch (error.code) {
    case Errc::invalid_argument:
    case Errc::unsupported:
    case Errc::exhausted:
      return {400, "invalid_value", fmt::format("{}: {}", param, error.message), param};
    default:
      return to_api_error(error);
  }
}

// The token of these bytes that the mask allows, however the vocabulary spells it.
std::optional<TokenId> allowed_token(std::span<const std::uint32_t> mask,
                                     const Tokenizer& tokenizer, std::string_view bytes) {
  const std::size_t end = std::min(mask.size() * 32, tokenizer.size());
  for (std::size_t at = 0; at < end; at++) {
    if ((mask[at / 32] >> (at % 32) & 1U) == 0) continue;
    const auto id = static_cast<TokenId>(at);
    if (tokenizer.token_bytes(id) == bytes) return id;
  }
  return std::nullopt;
}

// The first steps into a value, where a schema with very many properties or alternatives meets the
// matcher's limits: better now than once the prompt was forwarded.
Status try_beginning(GrammarMatcher matcher, const Tokenizer& tokenizer) {
  constexpr int kSteps = 4;
  constexpr std::array<std::string_view, 3> kOpenings = {"{", "[", "\""};
  for (int step = 0; step < kSteps; step++) {
    TRY(matcher.compute_mask());
    std::optional<TokenId> opening;
    for (const std::string_view bytes : kOpenings) {
      if (!opening) opening = allowed_token(matcher.mask(), tokenizer, bytes);
    }
    if (!opening) return {};
    TRY_ASSIGN(const bool goes_on, matcher.advance(*opening));
    if (!goes_on) return {};
  }
  return {};
}

Result<GrammarMatcher> compile(GrammarCompiler& compiler, const ReplyGrammarOptions& format,
                               const Result<std::string>& lark) {
  if (!lark) return std::unexpected(lark.error());
  TRY_ASSIGN(GrammarMatcher matcher, compiler.compile(*lark));
  if (format.tokenizer == nullptr) return matcher;
  TRY_ASSIGN(GrammarMatcher copy, matcher.copy());
  TRY(try_beginning(std::move(copy), *format.tokenizer));
  return matcher;
}

bool may_call(const ReplyRules& rules) {
  return rules.tools != nullptr && reprise::may_call(*rules.tools);
}

// Where the function stands among the request's tools.
std::string parameters_path(const ReplyRules& rules, std::string_view name) {
  const Tools& tools = *rules.tools;
  for (std::size_t index = 0; index < tools.definitions.size(); index++) {
    const JsonObject* tool = tools.definitions[index].if_object();
    const JsonValue* function = tool != nullptr ? tool->if_contains("function") : nullptr;
    const JsonObject* fields = function != nullptr ? function->if_object() : nullptr;
    const JsonValue* found = fields != nullptr ? fields->if_contains("name") : nullptr;
    const bool is_it = found != nullptr && found->is_string() && found->get_string() == name;
    if (is_it && index < tools.places.size()) return tools.places[index] + ".parameters";
  }
  return "tools";
}

// The error of all together names none: the first that alone gives one is at fault.
ApiError refused_rules(GrammarCompiler& compiler, const ReplyRules& rules, const Error& error) {
  const std::string schema_param(rules.schema_param);
  if (!may_call(rules)) return refused_grammar(error, schema_param);
  if (rules.schema != nullptr) {
    const Result<GrammarMatcher> alone =
        compile(compiler, rules.format, json_grammar(rules.format, *rules.schema));
    if (!alone) return refused_grammar(alone.error(), schema_param);
  }
  const std::vector<ToolSpec>& specs = rules.tools->specs;
  const auto lark_of = [&](const ToolSpec& spec) {
    return tool_grammar(rules.format, std::span(&spec, 1), rules.tools->choice, false);
  };
  for (const ToolSpec& spec : specs) {  // cheap
    const Result<std::string> alone = lark_of(spec);
    if (!alone) return refused_grammar(alone.error(), parameters_path(rules, spec.name));
  }
  // Each may take the compiler to its limits, while others' requests wait.
  constexpr std::size_t kCompiledToolsMax = 16;
  if (specs.size() > kCompiledToolsMax) return refused_grammar(error, "tools");
  for (const ToolSpec& spec : specs) {
    const Result<GrammarMatcher> alone = compile(compiler, rules.format, lark_of(spec));
    if (!alone) return refused_grammar(alone.error(), parameters_path(rules, spec.name));
  }
  return refused_grammar(error, "tools");
}

Result<std::string> grammar_of(const ReplyRules& rules, std::span<const ToolSpec> specs) {
  if (!may_call(rules)) return json_grammar(rules.format, *rules.schema);
  const Tools& tools = *rules.tools;
  const bool parallel = tools.parallel && !tools.is_named;
  return tool_grammar(rules.format, specs, tools.choice, parallel, rules.schema);
}

// Functions that are not strict say less where no grammar could be made of what they say: a hint
// is no reason to refuse a request.
class Loosening {
 public:
  Loosening(GrammarCompiler& compiler, const ReplyRules& rules, std::vector<ToolSpec> specs)
      : compiler_(compiler), rules_(rules), specs_(std::move(specs)) {}

  // The grammar of all functions, after the one of what they said gave `trouble`.
  Result<GrammarMatcher> matcher(const Error& trouble) {
    const auto is_hint = [](const ToolSpec& spec) { return !spec.is_strict; };
    if (!is_clients(trouble) || std::ranges::none_of(specs_, is_hint))
      return std::unexpected(trouble);
    if (rules_.schema != nullptr) {  // it may be at fault, and is no hint
      const Result<std::string> answer = json_grammar(rules_.format, *rules_.schema);
      if (!compile(compiler_, rules_.format, answer)) return std::unexpected(trouble);
    }
    loosen(0, specs_.size());
    Result<GrammarMatcher> made = of_all();
    // Each is right, and all together are too large.
    for (const Looseness looseness : kSteps) {
      if (made || !is_clients(made.error())) break;
      for (ToolSpec& spec : specs_) say_less(spec, looseness);
      made = of_all();
    }
    return made;
  }

 private:
  static constexpr std::array kSteps = {Looseness::patterns, Looseness::sizes, Looseness::object};
  // Each may take the compiler to its limits, while others' requests wait.
  static constexpr int kCompilesMax = 48;

  static bool is_clients(const Error& error) {
    return error.code == Errc::invalid_argument || error.code == Errc::unsupported ||
           error.code == Errc::exhausted;
  }

  Result<GrammarMatcher> of_all() {
    return compile(compiler_, rules_.format, grammar_of(rules_, specs_));
  }

  bool compiles(std::size_t begin, std::size_t count) {
    if (++compiles_ > kCompilesMax) return false;
    const std::span<const ToolSpec> some = std::span(specs_).subspan(begin, count);
    const Result<std::string> lark = tool_grammar(rules_.format, some, rules_.tools->choice, false);
    return compile(compiler_, rules_.format, lark).has_value();
  }

  void loosen(std::size_t begin, std::size_t count) {
    if (compiles(begin, count)) return;
    if (count > 1) {
      loosen(begin, count / 2);
      loosen(begin + count / 2, count - count / 2);
      return;
    }
    for (const Looseness looseness : kSteps) {
      say_less(specs_[begin], looseness);
      if (compiles(begin, 1)) return;
    }
  }

  static void say_less(ToolSpec& spec, Looseness looseness) {
    if (spec.is_strict) return;
    spec.parameters = loosened_schema(spec.parameters, looseness);
    spdlog::debug("function {}: held to less of its schema", spec.name);
  }

  GrammarCompiler& compiler_;
  const ReplyRules& rules_;
  std::vector<ToolSpec> specs_;
  int compiles_ = 0;
};

}  // namespace

bool may_call(const Tools& tools) {
  return tools.choice != ToolChoice::none && !tools.specs.empty();
}

std::unexpected<Error> GrammarConstraint::named(const Error& error) const {
  return fail(Errc::invalid_argument, fmt::format("{}: {}", param_, error.message), param_);
}

Status GrammarConstraint::compute_mask() {
  Status computed = matcher_.compute_mask();
  if (!computed) return named(computed.error());
  return computed;
}

Result<bool> GrammarConstraint::advance(TokenId token) {
  Result<bool> goes_on = matcher_.advance(token);
  if (goes_on) return goes_on;
  if (goes_on.error().code == Errc::exhausted) return named(goes_on.error());
  return fail(Errc::corrupt, goes_on.error().message);
}

ApiResult<Constraints> constrain_replies(GrammarCompiler& compiler, const ReplyRules& rules,
                                         std::size_t count) {
  Constraints constraints(count);
  if (!may_call(rules) && rules.schema == nullptr) return constraints;
  const std::string param = may_call(rules) ? "tools" : std::string(rules.schema_param);
  const std::vector<ToolSpec> specs =
      may_call(rules) ? rules.tools->specs : std::vector<ToolSpec>();
  Result<GrammarMatcher> matcher = compile(compiler, rules.format, grammar_of(rules, specs));
  if (!matcher && may_call(rules))
    matcher = Loosening(compiler, rules, specs).matcher(Error(matcher.error()));
  if (!matcher) return std::unexpected(refused_rules(compiler, rules, matcher.error()));
  for (std::unique_ptr<TokenConstraint>& constraint : constraints) {
    Result<GrammarMatcher> own = matcher->copy();
    if (!own) return std::unexpected(to_api_error(own.error()));
    constraint = std::make_unique<GrammarConstraint>(std::move(*own), param);
  }
  return constraints;
}

}  // namespace reprise

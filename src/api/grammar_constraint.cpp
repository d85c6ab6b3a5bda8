// Grammars for replies, and who is at fault when there is none.
#include "api/grammar_constraint.h"

#include <optional>
#include <span>

#include <fmt/core.h>

#include "api/prepare.h"

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

Result<GrammarMatcher> compile(GrammarCompiler& compiler, const Result<std::string>& lark) {
  if (!lark) return std::unexpected(lark.error());
  return compiler.compile(*lark);
}

bool may_call(const Tools* tools) {
  return tools != nullptr && !tools->specs.empty() && tools->choice != ToolChoice::none;
}

// Where the function stands among the request's tools.
std::string parameters_path(const Tools& tools, std::string_view name) {
  for (std::size_t index = 0; index < tools.definitions.size(); index++) {
    const JsonObject* tool = tools.definitions[index].if_object();
    const JsonValue* function = tool != nullptr ? tool->if_contains("function") : nullptr;
    const JsonObject* fields = function != nullptr ? function->if_object() : nullptr;
    const JsonValue* found = fields != nullptr ? fields->if_contains("name") : nullptr;
    if (found != nullptr && found->is_string() && found->get_string() == name)
      return fmt::format("tools[{}].function.parameters", index);
  }
  return "tools";
}

// The error of all together names none: the first that alone gives one is at fault.
ApiError refused_rules(GrammarCompiler& compiler, const ReplyRules& rules, const Error& error) {
  const std::string schema_param(rules.schema_param);
  if (rules.schema != nullptr) {
    const Result<GrammarMatcher> alone =
        compile(compiler, json_grammar(rules.format, *rules.schema));
    if (!alone) return refused_grammar(alone.error(), schema_param);
  }
  if (!may_call(rules.tools)) return refused_grammar(error, schema_param);
  // Each may take the compiler to its limits, while others' requests wait.
  constexpr std::size_t kLargeToolsMax = 16;
  const bool is_long = rules.tools->specs.size() > kLargeToolsMax;
  if (error.code == Errc::exhausted && is_long) return refused_grammar(error, "tools");
  for (const ToolSpec& spec : rules.tools->specs) {
    const Result<GrammarMatcher> alone = compile(
        compiler, tool_grammar(rules.format, std::span(&spec, 1), rules.tools->choice, false));
    if (!alone) return refused_grammar(alone.error(), parameters_path(*rules.tools, spec.name));
  }
  return refused_grammar(error, "tools");
}

Result<std::string> grammar_of(const ReplyRules& rules) {
  if (!may_call(rules.tools)) return json_grammar(rules.format, *rules.schema);
  const Tools& tools = *rules.tools;
  return tool_grammar(rules.format, tools.specs, tools.choice, tools.parallel, rules.schema);
}

}  // namespace

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
  if (!may_call(rules.tools) && rules.schema == nullptr) return constraints;
  const std::string param = may_call(rules.tools) ? "tools" : std::string(rules.schema_param);
  const Result<std::string> lark = grammar_of(rules);
  const Result<GrammarMatcher> matcher = compile(compiler, lark);
  if (!matcher) return std::unexpected(refused_rules(compiler, rules, matcher.error()));
  for (std::unique_ptr<TokenConstraint>& constraint : constraints) {
    Result<GrammarMatcher> own = matcher->copy();
    if (!own) return std::unexpected(to_api_error(own.error()));
    constraint = std::make_unique<GrammarConstraint>(std::move(*own), param);
  }
  return constraints;
}

}  // namespace reprise

// Grammars as the engine's constraints: what a reply of tool calls or of JSON is held to.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/api_error.h"
#include "api/openai.h"
#include "engine/request.h"
#include "text/grammar.h"
#include "text/reply_grammar.h"

namespace reprise {

class GrammarConstraint final : public TokenConstraint {
 public:
  // `param`: the request's field that the grammar comes from, for errors.
  GrammarConstraint(GrammarMatcher matcher, std::string param)
      : matcher_(std::move(matcher)), param_(std::move(param)) {}

  // Errors: invalid_argument with the field: a limit that its grammar ran into, or a place from
  // which no token leads on.
  Status compute_mask() override;
  std::span<const std::uint32_t> mask() const override { return matcher_.mask(); }
  // Errors: as compute_mask; corrupt for a token that the mask did not have (a bug).
  Result<bool> advance(TokenId token) override;

 private:
  std::unexpected<Error> named(const Error& error) const;

  GrammarMatcher matcher_;
  std::string param_;
};

// Whether a reply may call one of them.
bool may_call(const Tools& tools);

// What a reply is held to: calls, an answer by the schema, or with both one of the two. Without a
// schema and callable tools: nothing.
struct ReplyRules {
  ReplyGrammarOptions format;
  const Tools* tools = nullptr;        // null: there are none
  const JsonObject* schema = nullptr;  // null: none
  std::string_view schema_param = {};  // the request's field that it stands in
};

// Constraints for `count` replies, each with a state of its own: null ones where nothing holds.
// Errors: 400 invalid_value naming the schema's field, or the function's (tools[i].function
// .parameters).
ApiResult<std::vector<std::unique_ptr<TokenConstraint>>> constrain_replies(
    GrammarCompiler& compiler, const ReplyRules& rules, std::size_t count);

}  // namespace reprise

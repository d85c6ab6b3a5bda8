// Templates of families whose files may carry none; ours, from the description of each format.
#include <array>

#include "text/chat_template.h"

namespace reprise {
namespace {

// Renders what the template that Google ships renders for text messages: the system message goes in
// front of the first user message, and user and assistant must take turns.
constexpr std::string_view kGemma3Template = R"({{ bos_token }}
{%- set system = messages[0]['content'] + '\n\n' if messages[0]['role'] == 'system' else '' -%}
{%- for message in (messages[1:] if messages[0]['role'] == 'system' else messages) -%}
  {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
    {{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
  {%- endif -%}
  {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
  {{ '<start_of_turn>' + role + '\n' + (system if loop.first else '') }}
  {{- message['content'] | trim + '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}
)";

// Llama 4: every message a turn of its own, the system message trimmed.
constexpr std::string_view kLlama4Template = R"({{ bos_token }}
{%- for message in messages -%}
  {{ '<|header_start|>' + message['role'] + '<|header_end|>\n\n' }}
  {%- set is_system = message['role'] == 'system' -%}
  {{- (message['content'] | trim if is_system else message['content']) + '<|eot|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{ '<|header_start|>assistant<|header_end|>\n\n' }}
{%- endif -%}
)";

// Trinity (AFMoE): ChatML turns. Thoughts of earlier answers are left out; with `enable_thinking`
// the reply opens with a thought. The tokenizer's settings say whether bos comes first.
constexpr std::string_view kAfmoeTemplate = R"(
{%- for message in messages -%}
  {%- set content = message['content'] -%}
  {%- if message['role'] == 'assistant' and '</think>' in content -%}
    {%- set content = content.split('</think>')[-1].lstrip('\n') -%}
  {%- endif -%}
  {{ '<|im_start|>' + message['role'] + '\n' + content + '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{ '<|im_start|>assistant\n' }}
  {%- if enable_thinking is defined and enable_thinking -%}{{ '<think>\n' }}{%- endif -%}
{%- endif -%}
)";

struct FamilyTemplate {
  std::string_view family, source;
};
constexpr std::array<FamilyTemplate, 3> kTemplates = {{
    {"afmoe", kAfmoeTemplate},
    {"gemma3", kGemma3Template},
    {"llama4", kLlama4Template},
}};

}  // namespace

std::string_view builtin_chat_template(std::string_view family_tag) {
  for (const FamilyTemplate& entry : kTemplates) {
    if (entry.family == family_tag) return entry.source;
  }
  return {};
}

}  // namespace reprise

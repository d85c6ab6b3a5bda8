// Names of ends.
#include "api/reply_writer.h"

namespace reprise {

std::string_view finish_reason_name(ChoiceEnd::Reason reason) {
  switch (reason) {
    case ChoiceEnd::Reason::stop:
      return "stop";
    case ChoiceEnd::Reason::length:
      return "length";
    case ChoiceEnd::Reason::tool_calls:
      return "tool_calls";
  }
  return "stop";
}

}  // namespace reprise

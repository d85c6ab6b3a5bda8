// The events of a streamed response, in OpenAI's form.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/json_writer.h"
#include "api/reply_outlet.h"
#include "api/responses_items.h"

namespace reprise {

// Numbers the events and sends them; of a whole reply it sends nothing.
class ResponseEvents {
 public:
  ResponseEvents(ReplyOutlet& outlet, bool is_on) : outlet_(&outlet), is_on_(is_on) {}
  bool is_on() const { return is_on_; }

  // "response.created", "response.completed" ...; `object` is the response as JSON.
  void response(std::string_view type, std::string object);

  // An item begins, grows and is complete. `index` is its place in the response's output; a
  // begun item has no text yet, a complete one has all of it.
  void item_begins(std::size_t index, const ResponseItem& item);
  // `logprobs`: items of a JSON list.
  void item_grows(std::size_t index, const ResponseItem& item, std::string_view delta,
                  std::string_view logprobs);
  void item_ends(std::size_t index, const ResponseItem& item);

 private:
  JsonWriter begin(std::string_view type);
  void begin_part(JsonWriter& json, std::size_t index, const ResponseItem& item) const;
  void part(std::string_view type, std::size_t index, const ResponseItem& item);
  void text_done(std::size_t index, const ResponseItem& item);
  void whole_item(std::string_view type, std::size_t index, const ResponseItem& item);
  void send(std::string_view type, JsonWriter& json);

  ReplyOutlet* outlet_;
  bool is_on_;
  std::int64_t next_ = 0;
};

}  // namespace reprise

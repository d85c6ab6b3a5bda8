// Who may ask: the server's API keys.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"

namespace reprise {

class ApiKeys {
 public:
  explicit ApiKeys(std::vector<std::string> keys);  // none: nobody needs one

  // The key that an Authorization header's value ("Bearer KEY") names; empty when none is needed.
  // Takes the same time for every wrong key of one length. Errors: 401 invalid_api_key.
  ApiResult<std::string> admit(std::string_view authorization) const;

 private:
  std::vector<std::string> keys_;
  std::vector<std::string> digests_;
};

}  // namespace reprise

// One line of the log for each request that is refused: who looks for the cause finds the status,
// the code and the field there, and nothing that the client said.
#pragma once
#include <string>
#include <string_view>

#include "api/api_error.h"
#include "api/routes.h"

namespace reprise {

// Of a request whose endpoint is known. `method`: the request's, where the endpoint has several.
void log_refusal(Endpoint endpoint, const ApiError& error, std::string_view method = {});
// Of one that never got to an endpoint.
void log_refusal(std::string_view method, std::string_view path, const ApiError& error);
// Of one that could not be read.
void log_refusal(int status, std::string_view code);

// The field's path up to where names begin that the client chose: "metadata.x" is "metadata".
std::string loggable_param(std::string_view param);

}  // namespace reprise

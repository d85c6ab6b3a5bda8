// The one file that compiles Asio and Beast themselves.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>

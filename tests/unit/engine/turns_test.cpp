// Whose turn it is: tenants by service, then rank, then arrival; and who gives way.
#include "engine/turns.h"

#include <gtest/gtest.h>

#include "engine/tenant_shares.h"

namespace reprise {
namespace {

constexpr std::int64_t kAgeing = 1000;

TEST(Turns, TheLeastServedTenantThenRankThenArrival) {
  const std::vector<Turn> waiting = {
      {.tenant = 1, .served = 50, .priority = Priority::high, .arrival = 1},
      {.tenant = 2, .served = 10, .priority = Priority::low, .arrival = 2},
      {.tenant = 2, .served = 10, .priority = Priority::normal, .arrival = 4},
      {.tenant = 2, .served = 10, .priority = Priority::normal, .arrival = 3},
  };
  EXPECT_EQ(next_turn(waiting, kAgeing), 3u);
  EXPECT_EQ(next_turn(std::span(waiting).first(2), kAgeing), 1u);
  EXPECT_EQ(next_turn(std::span(waiting).first(1), kAgeing), 0u);
  EXPECT_EQ(next_turn({}, kAgeing), std::nullopt);
}

TEST(Turns, EvenlyServedTenantsGoByRank) {
  const std::vector<Turn> waiting = {
      {.tenant = 1, .served = 7, .priority = Priority::low, .arrival = 1},
      {.tenant = 2, .served = 7, .priority = Priority::high, .arrival = 2}};
  EXPECT_EQ(next_turn(waiting, kAgeing), 1u);
}

TEST(Turns, WaitingRaisesTheRankUpToHigh) {
  const Turn low{.priority = Priority::low, .waited_ms = 999, .arrival = 9};
  EXPECT_EQ(rank(low, kAgeing), 0);
  EXPECT_EQ(rank({.priority = Priority::low, .waited_ms = 1000}, kAgeing), 1);
  EXPECT_EQ(rank({.priority = Priority::low, .waited_ms = 1'000'000}, kAgeing), 2);
  EXPECT_EQ(rank({.priority = Priority::high, .waited_ms = 1'000'000}, kAgeing), 2);
  EXPECT_EQ(rank({.priority = Priority::low, .waited_ms = 1'000'000}, 0), 0);  // no ageing
  // An aged low one goes before a high one that came later.
  const Turn aged{.priority = Priority::low, .waited_ms = 2000, .arrival = 1};
  const Turn fresh{.priority = Priority::high, .waited_ms = 0, .arrival = 2};
  EXPECT_TRUE(goes_before(aged, fresh, kAgeing));
  EXPECT_FALSE(goes_before(fresh, aged, kAgeing));
}

TEST(Turns, TheYoungestOfTheLowestRankGivesWay) {
  const std::vector<Turn> running = {
      {.tenant = 1, .priority = Priority::low, .arrival = 1},
      {.tenant = 1, .priority = Priority::low, .arrival = 3},
      {.tenant = 2, .priority = Priority::normal, .arrival = 9},
  };
  EXPECT_EQ(last_turn(running, kAgeing), 1u);
}

TEST(Turns, ATenantAboveItsShareGivesAPlaceToOneBelow) {
  std::vector<Turn> running;
  for (std::uint64_t i = 0; i < 4; i++) running.push_back({.tenant = 1, .arrival = i});
  const Turn other{.tenant = 2, .arrival = 9};
  EXPECT_EQ(place_to_take(running, other, 4, 2, kAgeing), 3u);
  running.pop_back();
  running.push_back({.tenant = 2, .arrival = 8});
  EXPECT_EQ(place_to_take(running, other, 4, 2, kAgeing), 2u);  // three to one
  running[2] = {.tenant = 2, .arrival = 7};
  EXPECT_EQ(place_to_take(running, other, 4, 2, kAgeing), std::nullopt);  // two to two
  // More tenants than places: a place each, and nobody who has one loses it.
  EXPECT_EQ(place_to_take(std::span(running).first(1), other, 1, 3, kAgeing), std::nullopt);
}

TEST(Turns, AHigherRankTakesThePlaceOfItsOwnTenantsLast) {
  const std::vector<Turn> running = {
      {.tenant = 1, .priority = Priority::low, .arrival = 1},
      {.tenant = 1, .priority = Priority::normal, .arrival = 2},
      {.tenant = 2, .priority = Priority::low, .arrival = 3},
      {.tenant = 2, .priority = Priority::low, .arrival = 4},
  };
  const Turn high{.tenant = 1, .priority = Priority::high, .arrival = 9};
  EXPECT_EQ(place_to_take(running, high, 4, 2, kAgeing), 0u);
  const Turn low{.tenant = 1, .priority = Priority::low, .arrival = 9};
  EXPECT_EQ(place_to_take(running, low, 4, 2, kAgeing), std::nullopt);
}

TEST(TenantShares, NobodySavesUpAClaim) {
  TenantShares shares;
  shares.enter("a");
  shares.serve("a", 1000);
  shares.enter("b");
  EXPECT_EQ(shares.served("b"), 1000u);
  shares.serve("b", 10);
  shares.enter("b");
  shares.leave("b");
  EXPECT_EQ(shares.served("b"), 1010u);  // one request is left
  shares.leave("b");
  EXPECT_EQ(shares.active(), 1u);
  shares.serve("a", 500);
  shares.enter("b");
  EXPECT_EQ(shares.served("b"), 1500u);
  EXPECT_NE(shares.number("a"), shares.number("b"));
}

TEST(TenantShares, LeavingForgivesNothing) {
  TenantShares shares;
  shares.enter("a");
  shares.enter("b");
  shares.serve("a", 1000);
  shares.serve("b", 10);
  shares.leave("a");
  EXPECT_EQ(shares.active(), 1u);
  shares.enter("a");
  EXPECT_EQ(shares.served("a"), 1000u);
  EXPECT_EQ(shares.active(), 2u);
  shares.leave("a");
  shares.serve("b", 5000);
  shares.enter("a");
  EXPECT_EQ(shares.served("a"), 5010u) << "a lead is no claim either";
  // What the others have had too is not remembered: tenants come and go.
  shares.leave("a");
  shares.leave("b");
  EXPECT_EQ(shares.active(), 0u);
  for (int i = 0; i < 100; i++) {
    shares.enter(std::to_string(i));
    shares.leave(std::to_string(i));
  }
  EXPECT_LE(shares.known(), 2u);
}

TEST(TenantShares, AnIdleServerForgetsNoOrder) {
  TenantShares shares;
  shares.enter("a");
  shares.serve("a", 100);
  shares.leave("a");
  shares.enter("b");
  shares.enter("a");
  EXPECT_EQ(shares.served("a"), shares.served("b"));
}

}  // namespace
}  // namespace reprise

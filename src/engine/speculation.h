// How many drafted tokens a step forwards: pure policy over plain data. What it costs and how often
// drafts come true is measured; by law L1 no answer depends on it.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace reprise {

inline constexpr int kDraftRowsMax = 15;       // of one step; each has a row of logits
inline constexpr int kDraftSequencesMax = 16;  // where more decode at once, none is drafted

// How often a sequence's guesses come true, by the length of the match that they come from. Every
// sampled token judges the guess for it, forwarded or not: so a sequence whose guesses are bad
// drafts nothing, and still notices for nothing when they become good.
class GuessRecord {
 public:
  GuessRecord();
  void observe(int matched, bool is_right);
  // The chance that the next token is the guessed one.
  double chance(int matched) const;

 private:
  struct Class {
    double right = 0, all = 0;  // older ones weigh less
  };
  static constexpr std::size_t kClasses = 5;
  static std::size_t class_of(int matched);
  std::array<Class, kClasses> classes_;
};

// What a step of decode rows costs: milliseconds, measured by how many sequences decode and how
// many drafted rows run with them. A measurement that is long past is forgotten, so that what once
// seemed dear is tried again.
class StepCosts {
 public:
  void observe(int sequences, int drafted, double elapsed_ms);
  // By drafted rows: each costs something. Where nothing was measured: in proportion, and infinity
  // beyond twice as many as were.
  std::array<double, kDraftRowsMax + 1> costs(int sequences) const;

 private:
  struct Cell {
    double ms = 0;  // 0: not measured
    std::size_t at = 0;
  };
  struct Measured {
    std::array<Cell, kDraftRowsMax + 1> cells;
    std::size_t steps = 0;
  };
  bool is_known(const Measured& measured, int drafted) const;
  std::array<Measured, kDraftSequencesMax + 1> by_sequences_ = {};
};

// How many tokens of each sequence's draft a step should forward, so that it gives the most tokens
// for its time; where several decode, without making it much longer. chances[i]: of each token of
// sequence i's draft, where those before it come true.
std::vector<int> plan_drafts(std::span<const std::vector<double>> chances, const StepCosts& costs);

}  // namespace reprise

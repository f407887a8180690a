#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>

#include "weft/program/lower.h"
#include "weft/search/evaluate.h"
#include "weft/search/mesh_tables.h"
#include "weft/search/plan_draft.h"
#include "weft/search/search_notes.h"
#include "weft/search/search_plans.h"

namespace weft {

/// What judging needs beside the drafts. What it refers to must outlive the judge.
struct Judging {
  const BlockModel& model;
  const Drafting& drafting;
  MeshTables& tables;
  const PlanLimits& limits;
  double budget_bytes = 0;  // of a device
};

struct JudgeEffort {
  int fewest = 0;  // drafts that are simulated whatever their estimates, if it takes little work
  int most = 1;    // drafts that are simulated
  double work_share = 1;  // of the work that a search may have
};

/// Lowers and simulates drafts and adds what comes out to the result's candidates. The mathematics
/// stands in judge_drafts.cpp.
class DraftJudge {
 public:
  DraftJudge(const Judging& how, PlanSearchResult& result)
      : how_(how),
        lowering_(how.model.training, how.model.ops),
        note_{how.limits.log, result.log},
        result_(result) {}

  /// Those that it has not judged yet, the best estimates first (less what orders may save, where
  /// drafts know it), as long as they are near the best plan of all and the effort allows.
  void run(std::vector<Draft>& drafts, const JudgeEffort& effort);
  /// Of the best plan so far; infinite: none fits.
  [[nodiscard]] double best_s() const { return best_s_; }
  /// Whether orders other than the schedule's are wanted.
  [[nodiscard]] bool may_order() const {
    return how_.limits.schedule.empty() && !is_forbidden(how_.limits, "listed");
  }

 private:
  enum class DraftKind : std::uint8_t { one_mesh, pipeline, chunked };
  static DraftKind kind_of(const Configuration& c);
  struct OrderKind {
    bool apart = false;  // gradients of weights are tasks of their own
    bool wide = false;   // more micro-batches in flight than with 1F1B, where there is room
  };
  struct OrderedDraft {
    Draft draft;
    PipelineAnswer answer;
  };

  /// How wrong estimates of a configuration are.
  struct Experience {
    double wrong_by = 1;
    double margin = 0;    // besides
    bool alike = false;   // something like it was simulated
    bool enough = false;  // to leave a draft out because of it
  };

  /// Whether one simulation is much work.
  [[nodiscard]] bool is_heavy(const Configuration& c) const;
  [[nodiscard]] Experience experience(const Configuration& c) const;
  [[nodiscard]] double wrong_by(Configuration c) const;
  [[nodiscard]] double least_seconds(const Draft& draft) const;
  [[nodiscard]] bool needs_order(const Draft& draft) const;
  void judge(Draft& draft, double order_below_s = std::numeric_limits<double>::infinity());
  void judge_following(const Draft& draft, std::size_t first);
  void try_orders(const Draft& draft, double step_s);
  [[nodiscard]] OrderedDraft order(Draft draft, const OrderKind& kind, double usual_s) const;
  void try_lean(const OrderedDraft& wide, const OrderKind& kind);
  [[nodiscard]] OrderedDraft lean(OrderedDraft wide, const OrderKind& kind) const;
  [[nodiscard]] Draft with_less_room(Draft draft, const Candidate& candidate) const;
  std::optional<Candidate> try_order(const Draft& draft, const PipelineOrder& order);
  void note_stages(const Draft& draft, const Candidate& candidate) const;
  bool correct(Draft& draft, const Candidate& candidate) const;
  void add_work(const Configuration& c);
  [[nodiscard]] std::optional<Candidate> evaluate(const Plan& plan, Interest interest);

  Judging how_;
  RepeatedLowering lowering_;
  SearchNotes note_;
  PlanSearchResult& result_;
  double work_ = 0;
  int following_lost_ = 0;  // how often running gradients that follow were clearly slower
  double best_s_ = std::numeric_limits<double>::infinity();
  std::map<std::string, double> wrong_by_;     // by name of the meshes
  std::map<DraftKind, double> wrong_by_kind_;  // the last one
};

}  // namespace weft

#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/plan/plan.h"
#include "weft/program/graph_facts.h"
#include "weft/program/program.h"

namespace weft {

/// Where a parameter lives on one mesh.
struct Home {
  Placements used;    // what its first use needs
  Placements stored;  // `used`, split further by the zero modes
  Placements kept;    // in all of a step: `stored`, but along axes of zero1 and zero2 as used
  Placements summed;  // of a sum of gradients that are partial sums: split at once by zero2, zero3
  Placements update;  // of gradient and state when it is updated
};

/// What is known while a plan is lowered. Each pass fills in a part; lower.cpp lists them.
struct Lowering {
  const GraphFacts& facts;
  const Graph& graph;
  const Plan& plan;
  const Program* beside = nullptr;  // parameters lie as in this program
  Program program = {};

  // lower: stages of the plan that share a mesh are the chunks of one stage of the program
  std::vector<PlanMesh> meshes = {};
  std::vector<int> mesh_of = {};  // by stage of the plan: into `meshes` and program.stages

  // assign_stages; stages are those of the plan
  std::vector<int> stage_of = {};                  // by node; -1: in every stage
  std::vector<std::vector<NodeId>> nodes_of = {};  // by stage: its nodes, ascending
  /// By value: the first stage on each mesh that uses this parameter, owner first.
  std::vector<std::vector<int>> homes = {};
  std::vector<NodeId> accumulated_by = {};  // by value: the accumulate node it is a term of, or -1
  std::vector<bool> trained = {};           // by value: a parameter whose gradient is summed

  std::vector<ValueId> replaces =
      {};  // by value: the parameter or state it is the next value of, or -1

  // place_nodes
  /// By node; null for accumulates and updates. Nodes that are placed alike share one.
  std::vector<std::shared_ptr<const NodePlacement>> placement = {};
  std::vector<int> ring_axis = {};                   // by node: along which it is a ring, or -1
  std::vector<std::map<int, Home>> home = {};        // by parameter value, mesh
  std::vector<Placements> produced = {};             // by value: as its node gives it
  std::vector<Placements> settled = {};              // by value: as later nodes find it
  std::vector<std::map<int, Placements>> sums = {};  // by accumulate output, mesh: the accumulator
};

[[nodiscard]] int stage_of_value(const Lowering& l, ValueId value);  // -1 for inputs and parameters
/// The phase in which a node of forward or backward runs, or the sum of an `accumulate` is there.
[[nodiscard]] Phase phase_of(const Lowering& l, NodeId node);
/// The mesh on which a parameter is updated.
[[nodiscard]] inline int owner_mesh(const Lowering& l, ValueId parameter) {
  return l.mesh_of[l.homes[parameter].front()];
}
/// Where a value lies when it comes to `stage` from another one: sharded along the axes that both
/// meshes know by the same name, whole elsewhere.
[[nodiscard]] Placements arriving(const Lowering& l, ValueId value, int stage);

/// Before the first pass. The arguments must outlive it.
[[nodiscard]] Lowering begin_lowering(const GraphFacts& facts, const Plan& plan,
                                      const Program* beside = nullptr);
/// The passes, in order.
void assign_stages(Lowering& l);
void place_nodes(Lowering& l);
void emit_segments(Lowering& l);
/// These change a stage of the program, and look at no other one.
void prefetch_gathers(Lowering& l, int stage);
void bucket_collectives(Lowering& l, int stage);
void overwrite_inputs(Lowering& l, int stage);
void insert_waits(Lowering& l, int stage);
void insert_frees(Lowering& l, int stage);
void schedule_stages(Lowering& l);
void space_sends(Lowering& l);

}  // namespace weft

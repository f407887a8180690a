#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/cluster/curve.h"
#include "weft/cluster/mesh.h"

namespace weft {

/// How a class of ops ("matmul", "attention", "convolution", "stream": cost/op_class.h) runs on a
/// type of device.
struct OpSpeed {
  double efficiency = 0;  // share of the peak that large calls reach; 0: the device's
  /// Flops (of stream: bytes) at which a call reaches half of it.
  double half_size = 0;
  /// Of attention: bytes that go through memory for each score, in the forward pass; twice as many
  /// in the backward pass. 0: the scores never leave the kernel.
  double score_bytes = 0;
  /// Measured, by dtype name: flops (of stream: bytes) of a call and its seconds. Where there is
  /// one, it takes precedence over every formula.
  std::map<std::string, Curve> tables = {};
  bool operator==(const OpSpeed&) const = default;
};

struct DeviceType {
  std::string name;                           // "A100-80GB", "cpu"
  std::map<std::string, double> flops_per_s;  // dense peak by dtype name: "bf16", "f32"
  double memory_bytes = 0;
  double memory_bandwidth = 0;   // bytes/s
  double reserved_bytes = 0;     // what the device's runtime keeps for itself
  double efficiency = 1;         // share of the peak that a large matmul reaches
  double memory_efficiency = 1;  // share of the memory bandwidth that a kernel reaches
  double launch_s = 0;           // fixed time of one kernel on the device
  /// What its host needs to issue one kernel, collective or send. The host runs ahead of the
  /// device, so this only shows where kernels are shorter.
  double issue_s = 0;
  /// The same for a kernel that updates a parameter: next to nothing where one kernel updates many,
  /// as in Megatron-LM. Nothing: like issue_s.
  std::optional<double> update_issue_s = {};
  /// What its host needs to go on after a receive that it waits for itself, as Megatron-LM's does:
  /// it issues nothing before the data is there. 0: the device waits, and the host runs on.
  double receive_s = 0;
  double compute_slowdown = 1;        // of kernels while the device communicates
  double communication_slowdown = 1;  // of communication while the device computes
  std::map<std::string, OpSpeed> ops = {};
  /// Seconds that single calls take more than all of this says (below 0: less), by the call's text
  /// (cost/cost.h).
  std::map<std::string, double> corrections = {};
  /// Algorithms of its communication library (cost/collective.h); empty: all.
  std::vector<std::string> collectives = {};
  Origins origins = {};  // by key of the cluster file: "flops", "launch", "ops", …
  bool operator==(const DeviceType&) const = default;
};

struct Device {
  int type = 0;  // into Cluster::types
  int host = 0;
  std::string name;  // "a.0"
  bool operator==(const Device&) const = default;
};

/// One direction of a wire. A route is a list of links; whoever uses a link shares its bandwidth.
struct Link {
  int from = 0;  // a vertex, see below
  int to = 0;
  double bandwidth = 0;  // bytes/s
  double latency_s = 0;
  Origin origin = Origin::spec;
  /// Measured: bytes and seconds of a transfer that has the link for itself, latency included.
  /// Takes precedence over bandwidth and latency.
  Curve table = {};
  bool operator==(const Link&) const = default;
};

/// A measured collective among `members` devices of one host: bytes on the device that has most
/// (the larger side), and seconds.
struct CollectiveTable {
  std::string kind;  // "all_reduce"
  int members = 0;
  Curve curve = {};
  bool operator==(const CollectiveTable&) const = default;
};

struct Host {
  std::string name;
  double memory_bytes = 0;
  double disk_bandwidth = 0;  // bytes/s; reads and writes share it
  Curve disk_table = {};      // measured: bytes and seconds; takes precedence
  std::vector<CollectiveTable> collectives = {};
  Origins origins = {};
  bool operator==(const Host&) const = default;
};

/// Whether a cluster's devices are played on this machine, and what says how long a kernel takes
/// there.
enum class Emulation : std::uint8_t {
  none,
  cost,      // the cost model, for the device as the file describes it
  cpu_time,  // the processor time that the kernel took here: devices of the first type are cores of
             // this machine, others as much faster or slower as their peaks say
};

struct Cluster {
  std::vector<DeviceType> types = {};
  std::vector<Host> hosts = {};
  std::vector<Device> devices = {};
  std::vector<Link> links = {};
  Emulation emulation = Emulation::none;
  bool operator==(const Cluster&) const = default;
};

/// The vertices that links join: devices first, then one switch for each host, then the hosts'
/// memories, then one fabric: the network of a shorthand, into which every device has a port.
/// Switches and the fabric do not block: only links have a speed. The latency between two devices
/// on one switch is that of two links, so each has half of what a cluster file or the catalogue
/// says.
[[nodiscard]] int switch_vertex(const Cluster& cluster, int host);
[[nodiscard]] int memory_vertex(const Cluster& cluster, int host);
[[nodiscard]] int fabric_vertex(const Cluster& cluster);
[[nodiscard]] int vertex_count(const Cluster& cluster);

/// Links from one device to another: the path with the largest bottleneck bandwidth, then the least
/// latency, then the fewest hops, then the lowest link ids (first link first). It leads through
/// switches and the fabric; other devices and memories pass data on only where no such path exists.
/// Empty for the device itself. Throws Error{bug} if there is none. For many routes:
/// cluster/route.h.
[[nodiscard]] std::vector<int> route(const Cluster& cluster, DeviceId from, DeviceId to);

/// A cluster file, `local`, `local:N`, or a shorthand such as `4x8xA100-80GB+1x4xV100-16GB`.
[[nodiscard]] Cluster parse_cluster(const std::string& text);
[[nodiscard]] Cluster cluster_from_json(const nlohmann::json& json, const std::string& where);
/// The shortest description that gives the same cluster again (a shorthand where there is one).
[[nodiscard]] nlohmann::json cluster_to_json(const Cluster& cluster);
/// A cluster file in the form that people write, for a cluster of one host whose devices have the
/// same links. Throws Error{input} for others.
[[nodiscard]] std::string cluster_file_text(const Cluster& cluster);
/// The link from one vertex to another; null if there is none.
[[nodiscard]] const Link* find_link(const Cluster& cluster, int from, int to);
/// `devices` equal devices of this machine's CPU, its cores divided among them.
[[nodiscard]] Cluster local_cluster(int devices);

/// All mistakes: no devices, links to nowhere, devices that cannot reach each other, speeds <= 0.
[[nodiscard]] std::vector<std::string> violations(const Cluster& cluster);

}  // namespace weft

// Devices by name, with the host each usually sits in.
//
// Peaks are dense (no sparsity). `efficiency` is measured bf16 matmul / peak where a measurement is
// published; where none is, a default by class:
//   0.8  no tensor cores, so the peak is easy to feed (P100)
//   0.7  data-centre and large consumer cards with tensor cores
//   0.6  cards of about 70 W that cannot hold their clock (T4, L4)
// Memory is what the driver reports, in GiB, rounded down; 1 GiB is kept by the driver's context
// and the libraries' workspaces. Speeds of links are for each direction.

#include "weft/cluster/catalogue.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace weft {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kReservedBytes = 1 * kGiB;
// A kernel begins about 2 us after the one before it; a host issues one in about 5 us.
constexpr double kLaunch_s = 2e-6;
constexpr double kIssue_s = 5e-6;
// Streaming kernels reach about 85 % of the memory's bandwidth, collectives 77 % of the links' (229
// of 300 GB/s in an all-reduce of 1 GB on 8 A100).
constexpr double kMemoryEfficiency = 0.85;
constexpr double kLinkEfficiency = 0.77;
// A matmul that would take 10 us at its best speed reaches half of it.
constexpr double kHalfSpeed_s = 10e-6;
// Fused attention against a large matmul, forward and backward together.
constexpr double kAttentionShare = 0.6;
// Communication kernels take some of the device's cores and memory bandwidth.
constexpr double kOverlapSlowdown = 1.1;

// A step of a ring on 8 A100 takes 6.6 us: 92 us for the 14 steps of a small all-reduce.
constexpr double kNvlinkLatency_s = 6.6e-6;
constexpr double kPcieLatency_s = 10e-6;
constexpr double kInfinibandLatency_s = 10e-6;
constexpr double kEthernetLatency_s = 25e-6;

// One row, in the units of data sheets: TFLOP/s, GiB, GB/s.
struct Row {
  const char* name = "";
  double f16 = 0;
  bool bf16 = true;  // as fast as f16; otherwise not in hardware
  double f8 = 0;     // 0: not in hardware
  double f32 = 0;
  double memory_gib = 0;
  double memory_gb_s = 0;
  double efficiency = 0;
  double device_gb_s = 0;
  double device_latency_s = 0;
  double host_gb_s = 0;
  double network_gb_s = 0;
  double network_latency_s = 0;
  std::string_view source;
};

constexpr Row kRows[] = {
    {"A100-80GB", 312, true, 0, 19.5, 80, 2039, 271.0 / 312, 300, kNvlinkLatency_s, 31, 25,
     kInfinibandLatency_s,
     "NVIDIA A100 SXM data sheet; 271 TFLOP/s bf16 matmul measured; NVLink 3; InfiniBand HDR"},
    {"A100-40GB", 312, true, 0, 19.5, 40, 1555, 271.0 / 312, 300, kNvlinkLatency_s, 31, 25,
     kInfinibandLatency_s,
     "NVIDIA A100 SXM data sheet; 271 TFLOP/s bf16 matmul measured; NVLink 3; InfiniBand HDR"},
    {"V100-16GB", 125, false, 0, 15.7, 16, 900, 0.7, 150, kNvlinkLatency_s, 16, 12.5,
     kInfinibandLatency_s,
     "NVIDIA V100 SXM2 data sheet; efficiency by class; NVLink 2; 100 Gbit/s a device"},
    {"V100-32GB", 125, false, 0, 15.7, 32, 900, 0.7, 150, kNvlinkLatency_s, 16, 12.5,
     kInfinibandLatency_s,
     "NVIDIA V100 SXM2 data sheet; efficiency by class; NVLink 2; 100 Gbit/s a device"},
    {"H100-SXM", 989, true, 1979, 67, 80, 3350, 794.0 / 989, 450, kNvlinkLatency_s, 63, 50,
     kInfinibandLatency_s,
     "NVIDIA H100 data sheet; 794 TFLOP/s bf16 matmul measured; NVLink 4; InfiniBand NDR"},
    {"H100-PCIe", 756, true, 1513, 51, 80, 2000, 0.7, 63, kPcieLatency_s, 63, 50,
     kInfinibandLatency_s,
     "NVIDIA H100 data sheet; efficiency by class; PCIe 5 x16; InfiniBand NDR"},
    {"H200", 989, true, 1979, 67, 140, 4800, 794.0 / 989, 450, kNvlinkLatency_s, 63, 50,
     kInfinibandLatency_s,
     "NVIDIA H200 data sheet; 794 TFLOP/s bf16 matmul measured; NVLink 4; InfiniBand NDR"},
    {"GH200", 989, true, 1979, 67, 95, 4000, 829.0 / 989, 450, kNvlinkLatency_s, 450, 50,
     kInfinibandLatency_s,
     "NVIDIA GH200 data sheet; 829 TFLOP/s bf16 matmul measured; NVLink 4; NVLink-C2C to the "
     "host; InfiniBand NDR"},
    {"B200", 2250, true, 4500, 75, 179, 8000, 1745.0 / 2250, 900, kNvlinkLatency_s, 63, 50,
     kInfinibandLatency_s,
     "NVIDIA HGX B200 data sheet; 1745 TFLOP/s bf16 matmul measured; NVLink 5; InfiniBand NDR"},
    {"P100", 21.2, false, 0, 10.6, 16, 732, 0.8, 16, kPcieLatency_s, 16, 12.5, kInfinibandLatency_s,
     "NVIDIA P100 data sheet; efficiency by class; PCIe 3 x16; InfiniBand EDR"},
    {"T4", 65, false, 0, 8.1, 15, 320, 0.6, 16, kPcieLatency_s, 16, 3.125, kEthernetLatency_s,
     "NVIDIA T4 data sheet; efficiency by class; PCIe 3 x16; 25 Gbit/s Ethernet a device"},
    {"L4", 121, true, 242, 30.3, 22, 300, 0.6, 31, kPcieLatency_s, 31, 3.125, kEthernetLatency_s,
     "NVIDIA L4 data sheet; efficiency by class; PCIe 4 x16; 25 Gbit/s Ethernet a device"},
    {"L40S", 362, true, 733, 91.6, 45, 864, 0.7, 31, kPcieLatency_s, 31, 25, kInfinibandLatency_s,
     "NVIDIA L40S data sheet; efficiency by class; PCIe 4 x16; 200 Gbit/s a device"},
    {"RTX4090", 165, true, 0, 82.6, 24, 1008, 0.7, 31, kPcieLatency_s, 31, 12.5, kEthernetLatency_s,
     "NVIDIA Ada white paper (fp32 accumulation); efficiency by class; PCIe 4 x16; 100 Gbit/s "
     "Ethernet a device"},
    {"RTX-TITAN", 65, false, 0, 16.3, 24, 672, 0.7, 16, kPcieLatency_s, 16, 12.5,
     kInfinibandLatency_s,
     "NVIDIA Turing white paper (fp32 accumulation); efficiency by class; PCIe 3 x16; 100 Gbit/s "
     "InfiniBand as in Galvatron's hosts"},
    {"MI300X", 1307, true, 2610, 163.4, 191, 5300, 668.0 / 1307, 448, kNvlinkLatency_s, 63, 50,
     kInfinibandLatency_s,
     "AMD MI300X data sheet; 668 TFLOP/s bf16 matmul measured; 64 GB/s to each of 7 peers, added "
     "up; 400 Gbit/s a device"},
};

CatalogueEntry entry(const Row& row) {
  CatalogueEntry e;
  e.type = {.name = row.name,
            .flops_per_s = {{"f16", row.f16 * kTera}, {"f32", row.f32 * kTera}},
            .memory_bytes = row.memory_gib * kGiB,
            .memory_bandwidth = row.memory_gb_s * kGiga,
            .reserved_bytes = kReservedBytes,
            .efficiency = row.efficiency,
            .memory_efficiency = kMemoryEfficiency,
            .launch_s = kLaunch_s,
            .issue_s = kIssue_s,
            .compute_slowdown = kOverlapSlowdown,
            .communication_slowdown = kOverlapSlowdown,
            .ops = {{"attention", {.efficiency = kAttentionShare * row.efficiency}},
                    {"matmul", {.half_size = kHalfSpeed_s * row.efficiency * row.f16 * kTera}}},
            .collectives = {"ring", "rings", "tree", "hierarchical"},  // what NCCL and RCCL have
            .origins = {.all = Origin::catalogue}};
  if (row.bf16) {
    e.type.flops_per_s["bf16"] = row.f16 * kTera;
  }
  if (row.f8 > 0) {
    e.type.flops_per_s["f8"] = row.f8 * kTera;
  }
  e.device_link_bandwidth = row.device_gb_s * kGiga;
  e.device_link_latency_s = row.device_latency_s;
  e.network_bandwidth = row.network_gb_s * kGiga;
  e.network_latency_s = row.network_latency_s;
  e.host_bandwidth = row.host_gb_s * kGiga;
  e.host_latency_s = kPcieLatency_s;
  e.link_efficiency = kLinkEfficiency;
  e.source = row.source;
  return e;
}

std::vector<CatalogueEntry> make_catalogue() {
  std::vector<CatalogueEntry> entries;
  for (const Row& row : kRows) {
    entries.push_back(entry(row));
  }
  return entries;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::span<const CatalogueEntry> catalogue() {
  static const std::vector<CatalogueEntry> entries = make_catalogue();
  return entries;
}

const CatalogueEntry* find_device(std::string_view name) {
  for (const CatalogueEntry& e : catalogue()) {
    if (same_name(e.type.name, name)) {
      return &e;
    }
  }
  return nullptr;
}

}  // namespace weft

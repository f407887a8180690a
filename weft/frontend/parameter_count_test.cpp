// Counts as published by the models' makers or counted from their published files; vocabularies and
// classes as there.
#include <gtest/gtest.h>

#include "weft/frontend/model.h"
#include "weft/graph/graph.h"

namespace weft {
namespace {

struct Published {
  const char* name;
  std::int64_t parameters;
};

TEST(ParameterCount, EqualsThePublishedOnes) {
  const OpTable ops = builtin_ops();
  for (const Published& p : std::initializer_list<Published>{{"gpt2-small", 124'439'808},
                                                             {"gpt2-medium", 354'823'168},
                                                             {"gpt2-large", 774'030'080},
                                                             {"gpt2-xl", 1'557'611'200},
                                                             {"llama2-7b", 6'738'415'616},
                                                             {"llama2-13b", 13'015'864'320},
                                                             {"llama2-70b", 68'976'648'192},
                                                             {"llama3-8b", 8'030'261'248},
                                                             {"llama3-70b", 70'553'706'496},
                                                             {"llama3.2-1b", 1'235'814'400},
                                                             {"mistral-7b", 7'241'732'096},
                                                             {"qwen2-0.5b", 494'032'768},
                                                             {"qwen2-7b", 7'615'616'512},
                                                             {"phi3-mini", 3'821'079'552},
                                                             {"mixtral-8x7b", 46'702'792'704},
                                                             {"qwen1.5-moe-a2.7b", 14'315'784'192},
                                                             {"deepseek-moe-16b", 16'375'728'128},
                                                             {"pythia-70m", 70'426'624},
                                                             {"pythia-160m", 162'322'944},
                                                             {"pythia-410m", 405'334'016},
                                                             {"pythia-1b", 1'011'781'632},
                                                             {"pythia-6.9b", 6'857'302'016},
                                                             {"bert-base", 109'514'298},
                                                             {"roberta-base", 124'697'433},
                                                             {"t5-small", 60'506'624},
                                                             {"t5-base", 222'903'552},
                                                             {"t5-large", 737'668'096},
                                                             {"vit-base", 86'567'656},
                                                             {"vit-large", 304'326'632},
                                                             {"vit-huge", 632'045'800},
                                                             {"swin-tiny", 28'288'354},
                                                             {"swin-base", 87'768'224},
                                                             {"resnet18", 11'689'512},
                                                             {"resnet34", 21'797'672},
                                                             {"resnet50", 25'557'032},
                                                             {"resnet101", 44'549'160},
                                                             {"wide-resnet50-2", 68'883'240},
                                                             {"vgg11", 132'863'336},
                                                             {"vgg16", 138'357'544},
                                                             {"vgg19", 143'667'240}}) {
    EXPECT_EQ(parameter_count(load_model(p.name, {}, ops).forward), p.parameters) << p.name;
  }
}

// Papers round, and count a pooler (1.6M in BERT-Huge) or leave out positions.
TEST(ParameterCount, IsThatInThePapers) {
  const OpTable ops = builtin_ops();
  struct Rounded {
    const char* name;
    double millions;
    double within;
  };
  for (const Rounded& p : std::initializer_list<Rounded>{
           {"gpt-350m", 350, 10},           {"gpt-1.3b", 1300, 50},
           {"gpt-2.6b", 2600, 60},          {"gpt-6.7b", 6700, 50},
           {"gpt-15b", 15000, 500},         {"gpt-39b", 39000, 500},
           {"gpt3-175b", 175000, 500},      {"moe-380m", 380, 5},
           {"moe-1.3b", 1300, 50},          {"moe-2.4b", 2400, 100},
           {"moe-10b", 10000, 500},         {"moe-27b", 27000, 1000},
           {"moe-70b", 70000, 500},         {"bert-huge-32", 672, 2},
           {"bert-huge-48", 987, 2},        {"vit-huge-32", 632, 1},
           {"vit-huge-48", 947, 1},         {"t5-large-32", 502, 1},
           {"t5-large-48", 737, 1},         {"swin-huge-32", 701, 1},
           {"swin-huge-48", 1016, 1},       {"wide-resnet-250m", 250, 15},
           {"wide-resnet-1b", 1000, 50},    {"wide-resnet-2b", 2000, 100},
           {"wide-resnet-4b", 4000, 200},   {"wide-resnet-6.8b", 6800, 600},
           {"wide-resnet-13b", 13000, 1000}}) {
    const double count =
        static_cast<double>(parameter_count(load_model(p.name, {}, ops).forward)) * 1e-6;
    EXPECT_NEAR(count, p.millions, p.within) << p.name;
  }
}

}  // namespace
}  // namespace weft

// Sizes as published. GPT-3 from table 2.1 of its paper, where 13B has 5140 features, which 40
// heads do not divide: 5120 is taken. The models of papers about parallel training keep their names
// there: GPT 350M to 39B, MoE and Wide-ResNet from Alpa, the Huge and Large models from Galvatron.
#include <array>

#include "weft/frontend/model.h"

namespace weft {

namespace {

constexpr std::array kBuiltin = {
    BuiltinModel{"gpt2-small", "gpt:layers=12,hidden=768,heads=12"},
    BuiltinModel{"gpt2-medium", "gpt:layers=24,hidden=1024,heads=16"},
    BuiltinModel{"gpt2-large", "gpt:layers=36,hidden=1280,heads=20"},
    BuiltinModel{"gpt2-xl", "gpt:layers=48,hidden=1600,heads=25"},
    BuiltinModel{"gpt3-125m", "gpt:layers=12,hidden=768,heads=12,seq=2048"},
    BuiltinModel{"gpt3-350m", "gpt:layers=24,hidden=1024,heads=16,seq=2048"},
    BuiltinModel{"gpt3-760m", "gpt:layers=24,hidden=1536,heads=16,seq=2048"},
    BuiltinModel{"gpt3-1.3b", "gpt:layers=24,hidden=2048,heads=16,seq=2048"},
    BuiltinModel{"gpt3-2.7b", "gpt:layers=32,hidden=2560,heads=32,seq=2048"},
    BuiltinModel{"gpt3-6.7b", "gpt:layers=32,hidden=4096,heads=32,seq=2048"},
    BuiltinModel{"gpt3-13b", "gpt:layers=40,hidden=5120,heads=40,seq=2048"},
    BuiltinModel{"gpt3-175b", "gpt:layers=96,hidden=12288,heads=96,seq=2048"},
    BuiltinModel{"gpt-350m", "gpt:layers=24,hidden=1024,heads=16,vocab=51200"},
    BuiltinModel{"gpt-1.3b", "gpt:layers=24,hidden=2048,heads=32,vocab=51200"},
    BuiltinModel{"gpt-2.6b", "gpt:layers=32,hidden=2560,heads=32,vocab=51200"},
    BuiltinModel{"gpt-6.7b", "gpt:layers=32,hidden=4096,heads=32,vocab=51200"},
    BuiltinModel{"gpt-15b", "gpt:layers=48,hidden=5120,heads=40,vocab=51200"},
    BuiltinModel{"gpt-39b", "gpt:layers=48,hidden=8192,heads=64,vocab=51200"},
    BuiltinModel{"gpt-tiny", "gpt:layers=2,hidden=64,heads=4,vocab=256,seq=64"},
    BuiltinModel{"moe-380m",
                 "gpt:layers=8,hidden=768,heads=16,vocab=51200,experts=8,expert_ffn=6144,"
                 "capacity=2,balance=0.01"},
    BuiltinModel{"moe-1.3b",
                 "gpt:layers=16,hidden=768,heads=16,vocab=51200,experts=16,expert_ffn=6144,"
                 "capacity=2,balance=0.01"},
    BuiltinModel{"moe-2.4b",
                 "gpt:layers=16,hidden=1024,heads=16,vocab=51200,experts=16,expert_ffn=8192,"
                 "capacity=2,balance=0.01"},
    BuiltinModel{"moe-10b",
                 "gpt:layers=16,hidden=1536,heads=16,vocab=51200,experts=32,expert_ffn=12288,"
                 "capacity=2,balance=0.01"},
    BuiltinModel{"moe-27b",
                 "gpt:layers=16,hidden=2048,heads=16,vocab=51200,experts=48,expert_ffn=16384,"
                 "capacity=2,balance=0.01"},
    BuiltinModel{"moe-70b",
                 "gpt:layers=32,hidden=2048,heads=16,vocab=51200,experts=64,expert_ffn=16384,"
                 "capacity=2,balance=0.01"},
    BuiltinModel{"llama2-7b", "llama:layers=32,hidden=4096,heads=32,ffn=11008,seq=4096"},
    BuiltinModel{"llama2-13b", "llama:layers=40,hidden=5120,heads=40,ffn=13824,seq=4096"},
    BuiltinModel{"llama2-70b",
                 "llama:layers=80,hidden=8192,heads=64,kv_heads=8,ffn=28672,seq=4096"},
    BuiltinModel{"llama3-8b",
                 "llama:layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=128256,seq=8192,"
                 "rope=500000"},
    BuiltinModel{"llama3-70b",
                 "llama:layers=80,hidden=8192,heads=64,kv_heads=8,ffn=28672,vocab=128256,seq=8192,"
                 "rope=500000"},
    BuiltinModel{"llama3.2-1b",
                 "llama:layers=16,hidden=2048,heads=32,kv_heads=8,ffn=8192,vocab=128256,seq=8192,"
                 "rope=500000,scaling=llama3:32:1:4:8192,tied=1"},
    BuiltinModel{"mistral-7b",
                 "llama:layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,seq=8192,window=4096"},
    BuiltinModel{"qwen2-0.5b",
                 "llama:layers=24,hidden=896,heads=14,kv_heads=2,ffn=4864,vocab=151936,seq=32768,"
                 "rope=1000000,eps=1e-06,qkv_bias=1,tied=1"},
    BuiltinModel{"qwen2-7b",
                 "llama:layers=28,hidden=3584,heads=28,kv_heads=4,ffn=18944,vocab=152064,seq=32768,"
                 "rope=1000000,eps=1e-06,qkv_bias=1"},
    BuiltinModel{"phi3-mini",
                 "llama:layers=32,hidden=3072,heads=32,ffn=8192,vocab=32064,seq=4096,layout=phi3"},
    BuiltinModel{"mixtral-8x7b",
                 "llama:layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,seq=32768,rope=1000000,"
                 "experts=8,active=2,balance=0.02,layout=mixtral"},
    BuiltinModel{"qwen1.5-moe-a2.7b",
                 "llama:layers=24,hidden=2048,heads=16,ffn=5632,vocab=151936,seq=8192,rope=1000000,"
                 "eps=1e-06,qkv_bias=1,experts=60,active=4,expert_ffn=1408,normalise=0,"
                 "balance=0.001,shared_ffn=5632,shared_gate=1,layout=qwen2_moe"},
    BuiltinModel{"deepseek-moe-16b",
                 "llama:layers=28,hidden=2048,heads=16,ffn=10944,vocab=102400,seq=4096,eps=1e-06,"
                 "experts=64,active=6,expert_ffn=1408,normalise=0,balance=0.001,dense_layers=1,"
                 "shared_ffn=2816,layout=deepseek"},
    BuiltinModel{"pythia-70m", "neox:layers=6,hidden=512,heads=8,rotary=16"},
    BuiltinModel{"pythia-160m", "neox:layers=12,hidden=768,heads=12,rotary=16"},
    BuiltinModel{"pythia-410m", "neox:layers=24,hidden=1024,heads=16,rotary=16"},
    BuiltinModel{"pythia-1b", "neox:layers=16,hidden=2048,heads=8,rotary=64"},
    BuiltinModel{"pythia-6.9b", "neox:layers=32,hidden=4096,heads=32,rotary=32,vocab=50432"},
    BuiltinModel{"bert-base", "bert:layers=12,hidden=768,heads=12"},
    BuiltinModel{"bert-large", "bert:layers=24,hidden=1024,heads=16"},
    BuiltinModel{"bert-huge-32", "bert:layers=32,hidden=1280,heads=16"},
    BuiltinModel{"bert-huge-48", "bert:layers=48,hidden=1280,heads=16"},
    BuiltinModel{"roberta-base",
                 "bert:layers=12,hidden=768,heads=12,vocab=50265,segments=1,eps=1e-05,"
                 "layout=roberta"},
    BuiltinModel{"t5-small", "t5:layers=6,hidden=512,heads=8,ffn=2048"},
    BuiltinModel{"t5-base", "t5:layers=12,hidden=768,heads=12,ffn=3072"},
    BuiltinModel{"t5-large", "t5:layers=24,hidden=1024,heads=16,ffn=4096"},
    BuiltinModel{"t5-large-32", "t5:layers=16,hidden=1024,heads=16,ffn=4096"},
    BuiltinModel{"t5-large-48", "t5:layers=24,hidden=1024,heads=16,ffn=4096"},
    BuiltinModel{"vit-base", "vit:layers=12,hidden=768,heads=12"},
    BuiltinModel{"vit-large", "vit:layers=24,hidden=1024,heads=16"},
    BuiltinModel{"vit-huge", "vit:layers=32,hidden=1280,heads=16,patch=14"},
    BuiltinModel{"vit-huge-32", "vit:layers=32,hidden=1280,heads=16,patch=16"},
    BuiltinModel{"vit-huge-48", "vit:layers=48,hidden=1280,heads=16,patch=16"},
    BuiltinModel{"swin-tiny", "swin:embed=96,depths=2/2/6/2,heads=3/6/12/24"},
    BuiltinModel{"swin-base", "swin:embed=128,depths=2/2/18/2,heads=4/8/16/32"},
    BuiltinModel{"swin-huge-32", "swin:embed=320,depths=2/2/26/2,heads=10/20/40/80"},
    BuiltinModel{"swin-huge-48", "swin:embed=320,depths=2/2/42/2,heads=10/20/40/80"},
    BuiltinModel{"resnet18", "resnet:depths=2/2/2/2,sizes=64/128/256/512,block=basic"},
    BuiltinModel{"resnet34", "resnet:depths=3/4/6/3,sizes=64/128/256/512,block=basic"},
    BuiltinModel{"resnet50", "resnet:depths=3/4/6/3"},
    BuiltinModel{"resnet101", "resnet:depths=3/4/23/3"},
    BuiltinModel{"wide-resnet50-2", "resnet:depths=3/4/6/3,width=2"},
    BuiltinModel{"wide-resnet-250m",
                 "resnet:depths=3/4/6/3,sizes=640/1280/2560/5120,stem=160,widen=2,classes=1024"},
    BuiltinModel{"wide-resnet-1b",
                 "resnet:depths=3/4/6/3,sizes=1280/2560/5120/10240,stem=320,widen=2,classes=1024"},
    BuiltinModel{"wide-resnet-2b",
                 "resnet:depths=3/4/6/3,sizes=1792/3584/7168/14336,stem=448,widen=2,classes=1024"},
    BuiltinModel{"wide-resnet-4b",
                 "resnet:depths=3/4/6/3,sizes=2560/5120/10240/20480,stem=640,widen=2,"
                 "classes=1024"},
    BuiltinModel{"wide-resnet-6.8b",
                 "resnet:depths=3/4/6/3,sizes=1280/2560/5120/10240,stem=320,widen=16,"
                 "classes=1024"},
    BuiltinModel{"wide-resnet-13b",
                 "resnet:depths=3/4/23/3,sizes=1280/2560/5120/10240,stem=320,widen=16,"
                 "classes=1024"},
    BuiltinModel{"vgg11", "vgg:depths=1/1/2/2/2"},
    BuiltinModel{"vgg16", "vgg:depths=2/2/3/3/3"},
    BuiltinModel{"vgg19", "vgg:depths=2/2/4/4/4"},
    BuiltinModel{"unet-small", "unet:sizes=64/128/256/512,image=64"},
    BuiltinModel{"mlp-mnist", "mlp:inputs=784,hidden=256,layers=2,outputs=10"},
};

}  // namespace

std::span<const BuiltinModel> builtin_models() {
  return kBuiltin;
}

}  // namespace weft

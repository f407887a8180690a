#!/usr/bin/env python3
"""Models of torchvision, exported by PyTorch in training mode, train for three steps with PyTorch's losses.

In f64: batch norm over few pixels makes rounding grow so fast that PyTorch's own losses of a ResNet-50 in f32 and in f64
differ by 5 % after two steps.

Usage: onnx_train_test.py BIN_DIR. Skipped without torchvision or onnx.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy
    import onnx  # noqa: F401  the exporter checks its result with it
    import torch
    import torchvision
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)

STEPS = 3
CLASSES = 10
LEARNING_RATE = 0.01
MOMENTUM = 0.9


def small_vgg():
    """VGG-11 with batch norm for small images: its own layers, fewer features in the classifier."""
    model = torchvision.models.vgg11_bn(num_classes=CLASSES, dropout=0.0)
    model.avgpool = torch.nn.Identity()  # 7x7 at 224 pixels; ONNX has no adaptive pool that does not divide
    model.classifier[0] = torch.nn.Linear(512, 64)
    model.classifier[3] = torch.nn.Linear(64, 64)
    model.classifier[6] = torch.nn.Linear(64, CLASSES)
    return model


def small_vit():
    return torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32,
                                                mlp_dim=64, num_classes=CLASSES)


def small_swin():
    return torchvision.models.swin_transformer.SwinTransformer(
        patch_size=[4, 4], embed_dim=24, depths=[2, 2], num_heads=[3, 6], window_size=[4, 4],
        stochastic_depth_prob=0.0, num_classes=CLASSES)


MODELS = {
    "resnet18": (lambda: torchvision.models.resnet18(num_classes=CLASSES), 64, 4),
    "resnet50": (lambda: torchvision.models.resnet50(num_classes=CLASSES), 64, 4),
    "vgg11_bn": (small_vgg, 32, 8),
    "vit": (small_vit, 32, 8),
    "swin": (small_swin, 64, 8),
}


def export(model, pixels, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, torch.randn(2, 3, pixels, pixels), path, opset_version=17,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                          input_names=["image"], output_names=["logits"],
                          dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}})


def train(model, images, labels, batches):
    """Losses of PyTorch on the given lists of samples."""
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def weft_losses(binary, path, folder, batch):
    log = folder / "metrics.jsonl"
    command = [binary, "train", str(path), "--loss", "cross-entropy:logits", "--cluster", "local:1",
               "--recipe", "micro-batches=1", "--batch", str(batch), "--steps", str(STEPS), "--optimizer", "sgd",
               "--dtype", "f64", "--lr", str(LEARNING_RATE), "--data", f"images:{folder}/images.npy,{folder}/labels.npy",
               "--log", str(log), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return [json.loads(line)["loss"] for line in log.read_text().splitlines()]


def check(name, binary, folder):
    """Each step sees all samples, so that their order does not matter."""
    build, pixels, batch = MODELS[name]
    torch.manual_seed(1)
    model = build()
    images = torch.randn(batch, 3, pixels, pixels)
    labels = torch.randint(0, CLASSES, (batch,))
    numpy.save(folder / "images.npy", images.numpy())
    numpy.save(folder / "labels.npy", labels.numpy())
    path = folder / f"{name}.onnx"
    state = {key: value.clone() for key, value in model.state_dict().items()}
    export(model, pixels, str(path))
    model.load_state_dict(state)  # tracing moved the running statistics
    ours = weft_losses(binary, path, folder, batch)
    theirs = train(model.double(), images.double(), labels, [list(range(batch))] * STEPS)
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
    good = len(ours) == STEPS and worst < 1e-7
    print(f"{'ok   ' if good else 'WRONG'} {name}: weft {ours}, PyTorch {theirs}, largest relative error {worst:.1e}")
    return good


def main():
    binary = str(pathlib.Path(sys.argv[1]) / "weft")
    names = sys.argv[2:] or list(MODELS)
    good = True
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            good = check(name, binary, pathlib.Path(folder)) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

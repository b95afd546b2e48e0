#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mixes.py NAME: one mix of libraries that use CUDA in a process, faulty or sound (NAME-ok)."""
import sys


def driver():
    from cuda.bindings import driver as d

    def ok(r):
        if r[0] != d.CUresult.CUDA_SUCCESS:
            raise SystemExit(f"driver: {r[0]}")
        return r[1] if len(r) > 1 else None

    ok(d.cuInit(0))
    device = ok(d.cuDeviceGet(0))

    def make():
        try:
            return ok(d.cuCtxCreate(None, 0, device))
        except TypeError:
            return ok(d.cuCtxCreate(0, device))

    return d, ok, device, make


def cubin(name):
    from cuda.bindings import nvrtc

    source = b'extern "C" __global__ void scale_kernel(float *p, float s) { p[threadIdx.x] = s; }'
    _, program = nvrtc.nvrtcCreateProgram(source, b"k.cu", 0, None, None)
    nvrtc.nvrtcCompileProgram(program, 1, [name])
    size = nvrtc.nvrtcGetCUBINSize(program)[1]
    image = b" " * size
    nvrtc.nvrtcGetCUBIN(program, image)
    return image


def foreign(sound):
    """cuda-bindings makes a context and loads a kernel there; torch's stream is of the primary one."""
    import ctypes

    import torch

    d, ok, device, make = driver()
    x = torch.zeros(32, device="cuda")
    primary = ok(d.cuCtxGetCurrent())
    if not sound:
        make()
    major, minor = torch.cuda.get_device_capability()
    module = ok(d.cuModuleLoadData(cubin(b"-arch=sm_%d%d" % (major, minor))))
    function = ok(d.cuModuleGetFunction(module, b"scale_kernel"))
    d.cuCtxSetCurrent(primary)
    stream = torch.cuda.Stream()
    arguments = ((x.data_ptr(), 3.0), (ctypes.c_void_p, ctypes.c_float))
    for _ in range(3):
        d.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream.cuda_stream, arguments, 0)
    torch.cuda.synchronize()
    print("sum", float(x.sum()))


def contexts(sound):
    """A foreign context beside torch, which crosses nothing: no fault."""
    import torch

    d, ok, device, make = driver()
    if not sound:
        make()
    x = torch.ones(1024, device="cuda")
    print(float((x + 1).sum()))


def train(sound):
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(200):
        optimizer.zero_grad()
        model(torch.randn(64, 256, device="cuda")).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
    print("trained")


def leak(sound):
    """Tensors that are kept: torch's cache asks the driver for more and more."""
    import time

    import torch

    kept = []
    for i in range(300):
        t = torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
        if not sound:
            kept.append(t)
        time.sleep(0.01)


def cupy_mix(sound):
    import cupy
    import torch

    a = cupy.arange(1024, dtype=cupy.float32)
    t = torch.from_dlpack(a)
    print(float((t * 2).sum()), float(a.sum()))


def resnet(sound):
    import time

    import torch
    import torchvision

    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50().cuda().half().eval()
    x = torch.randn(1, 3, 224, 224, device="cuda").half()
    with torch.inference_mode():
        for _ in range(20):
            model(x)
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(200):
            model(x)
        torch.cuda.synchronize()
    print("resnet50 eager b1 ms", round((time.perf_counter() - start) * 5, 3))


if __name__ == "__main__":
    name = sys.argv[1].removesuffix("-ok")
    {"foreign": foreign, "contexts": contexts, "train": train, "leak": leak, "cupy": cupy_mix, "resnet": resnet}[name](
        sys.argv[1].endswith("-ok")
    )

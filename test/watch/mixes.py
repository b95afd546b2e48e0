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


def event(sound):
    """An event of cuda-bindings' context on torch's stream."""
    import torch

    d, ok, device, make = driver()
    torch.zeros(1, device="cuda")
    primary = ok(d.cuCtxGetCurrent())
    if not sound:
        make()
    mine = ok(d.cuEventCreate(0))
    d.cuCtxSetCurrent(primary)
    d.cuEventRecord(mine, torch.cuda.Stream().cuda_stream)
    torch.cuda.synchronize()


def destroyed(sound):
    d, ok, device, make = driver()
    context = make()
    mine = ok(d.cuEventCreate(0))
    if sound:
        d.cuEventQuery(mine)
    ok(d.cuCtxDestroy(context))
    primary = ok(d.cuDevicePrimaryCtxRetain(device))
    ok(d.cuCtxSetCurrent(primary))
    if not sound:
        d.cuEventQuery(mine)


def reset(sound):
    """cuda-bindings resets the device while torch has tensors there; torch goes on. Sound: as the last thing."""
    import torch

    d, ok, device, make = driver()
    x = torch.ones(1 << 20, device="cuda")
    torch.cuda.synchronize()
    try:
        if not sound:
            ok(d.cuDevicePrimaryCtxReset(device))
        print("sum", float((x * 2).sum()))
    except RuntimeError as error:
        print(str(error).splitlines()[0])
    if sound:
        ok(d.cuDevicePrimaryCtxReset(device))


def forked(sound):
    """A child forked after torch has used CUDA; it uses the driver by itself, or only ends."""
    import os

    import torch

    torch.zeros(1, device="cuda")
    child = os.fork()
    if child == 0:
        if not sound:
            from cuda.bindings import driver as d

            d.cuMemAlloc(1 << 20)
        os._exit(0)
    os.waitpid(child, 0)


def illegal(sound):
    """An index out of range: torch's kernel asserts, a later call is told."""
    import torch

    x = torch.zeros(16, device="cuda")
    try:
        print(x[torch.tensor([3 if sound else 300], device="cuda")].sum().item())
    except RuntimeError as error:
        print(str(error).splitlines()[0])


def badvalue(sound):
    import ctypes

    import torch

    d, ok, device, make = driver()
    x = torch.zeros(32, device="cuda")
    major, minor = torch.cuda.get_device_capability()
    module = ok(d.cuModuleLoadData(cubin(b"-arch=sm_%d%d" % (major, minor))))
    function = ok(d.cuModuleGetFunction(module, b"scale_kernel"))
    arguments = ((x.data_ptr(), 3.0), (ctypes.c_void_p, ctypes.c_float))
    d.cuLaunchKernel(function, 1, 1, 1, 32 if sound else 4096, 1, 1, 0, 0, arguments, 0)
    torch.cuda.synchronize()


def heap(sound):
    """A NumPy array of 1,000 floats, copied as if it had 1,250."""
    import numpy

    d, ok, device, make = driver()
    ok(d.cuCtxSetCurrent(ok(d.cuDevicePrimaryCtxRetain(device))))
    x = numpy.ones(1000, numpy.float32)
    behind = [numpy.ones(1000, numpy.float32) for _ in range(8)]
    p = ok(d.cuMemAlloc(1 << 16))
    d.cuMemcpyHtoD(p, x.ctypes.data, 4 * (1000 if sound else 1250))
    d.cuMemcpyHtoD(p, x[100:].ctypes.data, 3600)
    print(len(behind))


def pitch(sound):
    """Rows of a NumPy picture, one too many."""
    import numpy

    d, ok, device, make = driver()
    ok(d.cuCtxSetCurrent(ok(d.cuDevicePrimaryCtxRetain(device))))
    x = numpy.ones((50, 640), numpy.uint8)
    m = d.CUDA_MEMCPY2D()
    m.srcMemoryType = d.CUmemorytype.CU_MEMORYTYPE_HOST
    m.srcHost = x.ctypes.data
    m.srcPitch = 640
    m.dstMemoryType = d.CUmemorytype.CU_MEMORYTYPE_DEVICE
    m.dstDevice = ok(d.cuMemAlloc(1 << 20))
    m.dstPitch = 1024
    m.WidthInBytes = 640
    m.Height = 50 if sound else 51
    print(d.cuMemcpy2D(m)[0])


def shorthost(sound):
    import ctypes

    d, ok, device, make = driver()
    ok(d.cuCtxSetCurrent(ok(d.cuDevicePrimaryCtxRetain(device))))
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    host = libc.mmap(None, 8 * 4096, 3, 0x22, -1, 0)
    if not sound:
        libc.munmap(host + 4096, 7 * 4096)
    d.cuMemcpyHtoD(ok(d.cuMemAlloc(1 << 16)), host, 4 * 4096)


def devptr(sound):
    import ctypes

    import torch

    x = torch.arange(64, device="cuda")
    x = x.cpu() if sound else x
    print(ctypes.string_at(x.data_ptr(), 4))


def capture(sound):
    """A thread allocates while another captures."""
    import threading

    import torch

    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    x = torch.zeros(1024, device="cuda")
    torch.cuda.synchronize()

    def allocate():
        try:
            torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
        except RuntimeError as error:
            print(str(error).splitlines()[0])

    try:
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed" if sound else "global"):
            x += 1
            thread = threading.Thread(target=allocate)
            thread.start()
            thread.join()
    except RuntimeError as error:
        print(str(error).splitlines()[0])


def late(sound):
    """Another user of torch's CUDA runtime leaves an error, torch is told of it."""
    import ctypes

    import torch

    torch.zeros(1, device="cuda")
    with open("/proc/self/maps") as maps:
        path = next(line.split()[-1] for line in maps if "libcudart" in line)
    runtime = ctypes.CDLL(path)
    runtime.cudaSetDevice(4000)
    if sound:
        runtime.cudaGetLastError()
    try:
        print(float((torch.ones(4, device="cuda") + 1).sum()))
    except RuntimeError as error:
        print("torch was told:", str(error).splitlines()[0])


def hostleak(sound):
    """Host memory that each step keeps."""
    import time

    import torch

    x, kept = torch.zeros(1024, device="cuda"), []
    for _ in range(400):
        x += 1
        block = b"\1" * (256 << 10)
        if not sound:
            kept.append(block)
        time.sleep(0.008)
    torch.cuda.synchronize()


def profiler(sound):
    """torch.profiler wants CUPTI for itself."""
    import torch

    x = torch.ones(256, 256, device="cuda")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
        for _ in range(10):
            x = x @ x * 0.001
        torch.cuda.synchronize()
    print("kernels seen by the profiler:", sum(e.device_time_total > 0 for e in p.key_averages()))


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
    """How long a run of ResNet-50 takes, eager: the median of 12 blocks of 20 runs."""
    import statistics
    import time

    import torch
    import torchvision

    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50().cuda().half().eval()
    x = torch.randn(1, 3, 224, 224, device="cuda").half()
    blocks = []
    with torch.inference_mode():
        for block in range(14):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(20):
                model(x)
            torch.cuda.synchronize()
            blocks.append((time.perf_counter() - start) * 50)
    blocks = sorted(blocks[2:])
    print(f"resnet50 eager b1 ms median {statistics.median(blocks):.3f} least {blocks[0]:.3f}", flush=True)


def library(sound):
    """A kernel of a library (cuLibraryLoadData) runs on torch's stream, whatever context is current: no fault."""
    import ctypes

    import torch

    d, ok, device, make = driver()
    x = torch.zeros(32, device="cuda")
    major, minor = torch.cuda.get_device_capability()
    loaded = ok(d.cuLibraryLoadData(cubin(b"-arch=sm_%d%d" % (major, minor)), [], [], 0, [], [], 0))
    kernel = ok(d.cuLibraryGetKernel(loaded, b"scale_kernel"))
    stream = torch.cuda.Stream()
    make()
    arguments = ((x.data_ptr(), 3.0), (ctypes.c_void_p, ctypes.c_float))
    print(d.cuLaunchKernel(d.CUfunction(int(kernel)), 1, 1, 1, 32, 1, 1, 0, stream.cuda_stream, arguments, 0)[0])
    torch.cuda.synchronize()
    print("sum", float(x.sum()))


def graphs(sound):
    """CUDA graphs of torch's, captured and run."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).cuda()
    x = torch.randn(64, 256, device="cuda")
    with torch.inference_mode():
        for _ in range(3):
            model(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = model(x)
        for _ in range(100):
            x.normal_()
            graph.replay()
    print(float(y.sum()))


def compiled(sound):
    """torch.compile: kernels that are made while the program runs."""
    import torch

    @torch.compile
    def f(x):
        return torch.nn.functional.gelu(x @ x).sum(0)

    x = torch.randn(256, 256, device="cuda")
    for _ in range(20):
        y = f(x)
    print(float(y.sum()))


def convolutions(sound):
    """Training of ResNet-18 with mixed precision, as scripts do."""
    import torch
    import torchvision

    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet18().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler()
    for _ in range(20):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.float16):
            loss = model(torch.randn(8, 3, 128, 128, device="cuda")).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    print("loss", loss.item())


def multiprocess(sound):
    """Workers that are forked and load batches, as a training loop's do."""
    import torch

    data = torch.utils.data.TensorDataset(torch.randn(512, 64))
    loader = torch.utils.data.DataLoader(data, batch_size=32, num_workers=2, pin_memory=True)
    weight = torch.randn(64, 8, device="cuda")
    for _ in range(3):
        for (batch,) in loader:
            (batch.cuda(non_blocking=True) @ weight).sum()
    torch.cuda.synchronize()
    print("loaded")


if __name__ == "__main__":
    name = sys.argv[1].removesuffix("-ok")
    globals()[{"cupy": "cupy_mix"}.get(name, name)](sys.argv[1].endswith("-ok"))

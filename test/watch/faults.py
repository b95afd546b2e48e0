#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""faults.py NAME IMAGE: faults.c's faults and sound twins (NAME-ok) in Python, by ctypes alone: on a GPU with
kernels.cubin, and on the driver without a device, which takes any IMAGE."""
import ctypes
import mmap
import os
import sys
import threading
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p

cu = ctypes.CDLL("libcuda.so.1")
device, primary = c_int(), c_void_p()
names = {"cuDevicePrimaryCtxRelease": "_v2", "cuDevicePrimaryCtxReset": "_v2", "cuCtxDestroy": "_v2",
         "cuMemAlloc": "_v2", "cuMemAllocHost": "_v2", "cuMemcpyHtoD": "_v2", "cuMemcpyDtoH": "_v2",
         "cuMemcpyDtoD": "_v2", "cuMemcpy2D": "_v2", "cuMemcpy3D": "_v2", "cuMemsetD8": "_v2",
         "cuStreamBeginCapture": "_v2", "cuEventDestroy": "_v2", "cuMemcpyBatchAsync": "_v2"}


def call(name, *arguments):
    return getattr(cu, name + names.get(name, ""))(*arguments)


def must(name, *arguments):
    result = call(name, *arguments)
    if result:
        raise SystemExit(f"{name}: {result}")


def made(name, *arguments):
    handle = c_void_p()
    must(name, byref(handle), *arguments)
    return handle


def own_context():
    context = c_void_p()
    if hasattr(cu, "cuCtxCreate_v4"):
        must("cuCtxCreate_v4", byref(context), None, c_uint(0), device)
    else:
        must("cuCtxCreate_v2", byref(context), c_uint(0), device)
    return context


def memory(size):
    return made("cuMemAlloc", c_size_t(size))


def function():
    module, f = made("cuModuleLoad", sys.argv[2].encode()), c_void_p()
    must("cuModuleGetFunction", byref(f), module, b"fill")
    return f


def launch(f, stream, pointer, threads=32):
    p, n = c_void_p(pointer), c_int(32)
    arguments = (c_void_p * 2)(ctypes.cast(byref(p), c_void_p), ctypes.cast(byref(n), c_void_p))
    one = c_uint(1)
    return call("cuLaunchKernel", f, one, one, one, c_uint(threads), one, one, c_uint(0), stream, arguments, None)


def stream():
    return made("cuStreamCreate", c_uint(1))


def foreign(sound):
    own_context()
    f = function()
    if not sound:
        must("cuCtxSetCurrent", primary)
    s, p = stream(), memory(1 << 20)
    for _ in range(5):
        launch(f, s, p.value)


def event(sound):
    own_context()
    e = made("cuEventCreate", c_uint(0))
    if not sound:
        must("cuCtxSetCurrent", primary)
    call("cuEventRecord", e, stream())


def destroyed(sound):
    context = own_context()
    e = made("cuEventCreate", c_uint(0))
    if sound:
        call("cuEventQuery", e)
    must("cuCtxDestroy", context)
    must("cuCtxSetCurrent", primary)
    if not sound:
        call("cuEventQuery", e)


def reset(sound):
    e = made("cuEventCreate", c_uint(0))
    if sound:
        must("cuEventDestroy", e)
    must("cuDevicePrimaryCtxReset", device)
    if not sound:
        call("cuEventQuery", e)


def release(sound):
    if sound:
        made("cuDevicePrimaryCtxRetain", device)
    e = made("cuEventCreate", c_uint(0))
    must("cuDevicePrimaryCtxRelease_v2", device)
    call("cuEventQuery", e)


def illegal(sound):
    p = memory(4096)
    launch(function(), None, p.value if sound else 16)
    call("cuCtxSynchronize")


def badvalue(sound):
    launch(function(), None, memory(4096).value, 32 if sound else 4096)


def unwritten(sound):
    f = function()
    for k in range(2):
        launch(f, None, memory((k + 1) << 20).value, 32 if sound else 4096)


def pages(n):
    libc = ctypes.CDLL(None)
    libc.mmap.restype = c_void_p
    libc.mmap.argtypes = [c_void_p, c_size_t, c_int, c_int, c_int, ctypes.c_long]
    libc.munmap.argtypes = [c_void_p, c_size_t]
    return libc, libc.mmap(None, n * mmap.PAGESIZE, 3, 0x22, -1, 0)


def shorthost(sound):
    libc, host = pages(8)
    if not sound:
        libc.munmap(host + mmap.PAGESIZE, 7 * mmap.PAGESIZE)
    call("cuMemcpyHtoD", memory(1 << 16), c_void_p(host), c_size_t(4 * mmap.PAGESIZE))


def matrix(*members):
    """CUDA_MEMCPY2D and 3D are words, but for their types of memory."""
    return (ctypes.c_uint64 * len(members))(*members)


def pitch(sound):
    libc, host = pages(8)
    libc.munmap(host + 2 * mmap.PAGESIZE, 6 * mmap.PAGESIZE)
    p = memory(4 * mmap.PAGESIZE)
    call("cuMemcpy2D", matrix(0, 0, 1, host, 0, 0, mmap.PAGESIZE, 0, 0, 2, 0, p.value, 0, 256, 256, 2 if sound else 4))


def volume(sound):
    host, behind = ctypes.create_string_buffer(4 * 10 * 64), ctypes.create_string_buffer(1 << 16)
    call("cuMemcpy3D", matrix(0, 0, 0, 0, 2, 0, memory(1 << 20).value, 0, 0, 64, 10,
                              0, 0, 0, 0, 1, ctypes.addressof(host), 0, 0, 0, 64, 10, 64, 10, 4 if sound else 5))
    return behind


def heap(sound):
    host, behind = ctypes.create_string_buffer(4000), ctypes.create_string_buffer(1 << 16)
    call("cuMemcpyHtoD", memory(1 << 16), host, c_size_t(4000 if sound else 5000))
    return behind


def pinned(sound):
    host = made("cuMemAllocHost", c_size_t(8192))
    made("cuMemAllocHost", c_size_t(1 << 20))
    call("cuMemcpyHtoD", memory(1 << 16), host, c_size_t(8192 if sound else 12000))


def batch(sound):
    a, b = ctypes.create_string_buffer(2048), ctypes.create_string_buffer(2048)
    behind = ctypes.create_string_buffer(1 << 16)
    two, words = c_void_p * 2, c_size_t * 2
    to, source = two(memory(1 << 16), memory(1 << 16)), two(ctypes.addressof(a), ctypes.addressof(b))
    how = (c_uint * 16)(3)  # CUmemcpyAttributes: the source is read in the stream's order
    call("cuMemcpyBatchAsync", to, source, words(2048, 2048 if sound else 3000), c_size_t(2), how,
         words(0), c_size_t(1), stream())
    return behind


def swapped(sound):
    p, q = memory(4096), memory(4096)
    call("cuMemcpyDtoD" if sound else "cuMemcpyHtoD", p, c_void_p(q.value + 1024), c_size_t(1024))


def devptr(sound):
    p, value = memory(1 << 20), c_int()
    if sound:
        call("cuMemcpyDtoH", byref(value), p, c_size_t(4))
    else:
        ctypes.string_at(p.value + 4096, 4)


def leak(sound):
    for k in range(400):
        if k < 60 or not sound:
            memory(2 << 20)
        time.sleep(0.01)


def hostleak(sound):
    p, kept = memory(4096), []
    for _ in range(int(os.environ.get("COUNT", 400))):
        call("cuMemsetD8", p, c_int(0), c_size_t(4096))
        block = b"\1" * (256 << 10)
        if not sound:
            kept.append(block)
        time.sleep(0.008)


def capture(sound):
    def allocate():
        must("cuCtxSetCurrent", primary)
        call("cuMemAlloc", byref(c_void_p()), c_size_t(1 << 20))

    s, graph = stream(), c_void_p()
    must("cuStreamBeginCapture", s, c_int(2 if sound else 0))
    thread = threading.Thread(target=allocate)
    thread.start()
    thread.join()
    call("cuStreamEndCapture", s, byref(graph))


def late(sound):
    """A fault, a launch that goes well, and then the question."""
    runtime = ctypes.CDLL("libcudart.so.13")
    runtime.cudaSetDevice(0)
    runtime.cudaSetDevice(4000)
    if sound:
        runtime.cudaGetLastError()
    launch(function(), None, memory(4096).value)
    runtime.cudaGetLastError()


if __name__ == "__main__":
    if cu.cuInit(0) or cu.cuDeviceGet(byref(device), 0):
        raise SystemExit("no device")
    primary = made("cuDevicePrimaryCtxRetain", device)
    must("cuCtxSetCurrent", primary)
    globals()[sys.argv[1].removesuffix("-ok")](sys.argv[1].endswith("-ok"))

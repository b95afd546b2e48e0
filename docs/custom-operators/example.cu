/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA kernel of Swish. Work is queued on infer's stream and not waited for. */
#include <cuda_runtime.h>
#include <stdint.h>

static __global__ void swish(const float *x, float *y, int64_t n, float alpha)
{
	int64_t stride = (int64_t)gridDim.x * blockDim.x;

	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
		y[i] = x[i] / (1 + expf(-alpha * x[i]));
}

extern "C" int swish_launch(const float *x, float *y, int64_t n, float alpha, void *stream)
{
	int64_t blocks = (n + 255) / 256;

	if (!n)
		return 0;
	swish<<<(unsigned)(blocks < 65536 ? blocks : 65536), 256, 0, (cudaStream_t)stream>>>(x, y, n, alpha);
	return (int)cudaGetLastError();
}

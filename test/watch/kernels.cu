// SPDX-License-Identifier: Apache-2.0
extern "C" __global__ void fill(int *p, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		p[i] = i;
}

// SPDX-License-Identifier: Apache-2.0
// Optimizers: one tensor with its gradient and states.
#include "any.cuh"

// Operands: 0 rate, 1 turn, 2 X, 3 G, 4 and 5 states; out 0 X, 1 and 2 states. Kind: 0 Adagrad, 1 Adam, 2 Momentum.
extern "C" __global__ void optimizer(const gpu_train p)
{
	const double rate = in_real(p.io, 0, 0), turn = (double)in_int(p.io, 1, 0);
	double r = rate;
	if (p.kind == 0)
		r = rate / (1 + turn * p.decay);
	else if (p.kind == 1 && turn > 0)
		r = rate * sqrt(1 - pow(p.beta, turn)) / (1 - pow(p.alpha, turn));
	EACH(i, p.n)
	{
		double x = in_real(p.io, 2, i), grad = p.norm * x + in_real(p.io, 3, i), s = in_real(p.io, 4, i), y;
		if (p.kind == 0) {
			s += grad * grad;
			y = x - r * grad / (sqrt(s) + p.epsilon);
		} else if (p.kind == 1) {
			double h = p.beta * in_real(p.io, 5, i) + (1 - p.beta) * grad * grad;
			s = p.alpha * s + (1 - p.alpha) * grad;
			y = (1 - p.norm_post) * (x - r * s / (sqrt(h) + p.epsilon));
			if (p.io.out[2])
				out_put(p.io, 2, i, h);
		} else {
			s = p.alpha * s + (turn > 0 ? p.beta : 1) * grad;
			y = x - rate * (p.nesterov ? grad + p.alpha * s : s);
		}
		if (p.io.out[0])
			out_put(p.io, 0, i, y);
		if (p.io.out[1])
			out_put(p.io, 1, i, s);
	}
}

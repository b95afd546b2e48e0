/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_KERNEL_NAME_H
#define PROFILE_KERNEL_NAME_H
#include "base/arena.h"

/*
 * Returns the function's name in a demangled C++ signature, without return type, arguments and template arguments:
 * "ns::gemm" for "void ns::gemm<float, 3>(args)". The name lives in the arena. CUTLASS launches every kernel through
 * a wrapper template; the name is then that of the wrapped kernel.
 */
const char *kernel_short_name(const char *name, struct arena *a);

#endif

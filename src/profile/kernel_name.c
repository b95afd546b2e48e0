/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/kernel_name.h"

#include <string.h>

/* Returns where "ns::kernel" begins in "type<a> ns::kernel<b>(c)", and sets *n to its length. */
static const char *plain_name(const char *s, size_t *n)
{
	static const char anonymous[] = "(anonymous namespace)";
	const char *begin = s, *list = NULL; /* of template arguments */
	int depth = 0;

	for (; *s; s++) {
		if (!strncmp(s, anonymous, sizeof(anonymous) - 1)) {
			s += sizeof(anonymous) - 2;
		} else if (*s == '<') {
			list = depth++ || list ? list : s;
		} else if (*s == '>' || *s == ')') {
			depth -= depth > 0;
		} else if (*s == '(') {
			if (!depth)
				break;
			depth++;
		} else if (*s == ' ' && !depth) {
			begin = s + 1;
			list = NULL;
		}
	}
	*n = (size_t)((list ? list : s) - begin);
	return begin;
}

const char *kernel_short_name(const char *name, struct arena *a)
{
	static const char *const wrappers[] = {"cutlass::Kernel", "cutlass::Kernel2",
					       "cutlass::device_kernel", "cutlass__5x_cudnn::Kernel",
					       "cudnn::cudnn_cutlass::Kernel"};
	size_t n, inner;
	const char *s = plain_name(name, &n);

	for (size_t i = 0; s[n] == '<' && i < sizeof(wrappers) / sizeof(*wrappers); i++)
		if (strlen(wrappers[i]) == n && !strncmp(s, wrappers[i], n) &&
		    (inner = strcspn(s + n + 1, "<(,>")) > 0)
			return arena_strn(a, s + n + 1, inner);
	return n ? arena_strn(a, s, n) : arena_str(a, name);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cancel.h"

#include "base/clock.h"

#include <stdatomic.h>

static atomic_bool all; /* of the process, as a signal is */
static _Thread_local uint64_t moment;

void cancel_all(void)
{
	atomic_store(&all, true);
}

bool cancel_called(void)
{
	return atomic_load_explicit(&all, memory_order_relaxed);
}

uint64_t cancel_at(uint64_t ns)
{
	uint64_t before = moment;

	moment = ns;
	return before;
}

uint64_t cancel_moment(void)
{
	return moment;
}

bool cancel_requested(void)
{
	return cancel_called() || (moment && clock_ns() >= moment);
}

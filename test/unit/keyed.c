/* SPDX-License-Identifier: Apache-2.0 */
#include "base/keyed.h"

#include "unit.h"

static void lists_meet_at_common_keys(void)
{
	struct keyed p[] = {{9, 0}, {2, 1}, {5, 2}, {2, 0}, {7, 3}},
		     q[] = {{8, 4}, {7, 1}, {2, 5}, {7, 0}};

	keyed_sort(p, 5);
	keyed_sort(q, 4);
	struct keyed_walk w = {.p = p, .q = q, .p_left = 5, .q_left = 4};
	CHECK(keyed_meet(&w));
	CHECK_INT(w.p->key, 2);
	CHECK_INT(w.np, 2);
	CHECK_INT(w.p[0].node, 0);
	CHECK_INT(w.p[1].node, 1);
	CHECK_INT(w.nq, 1);
	CHECK_INT(w.q->node, 5);
	CHECK(keyed_meet(&w));
	CHECK_INT(w.p->key, 7);
	CHECK_INT(w.np, 1);
	CHECK_INT(w.nq, 2);
	CHECK(!keyed_meet(&w));
	CHECK(!keyed_meet(&w));
}

static void empty_lists_meet_nowhere(void)
{
	struct keyed p[] = {{1, 0}};
	struct keyed_walk w = {.p = p, .q = p, .p_left = 1};

	CHECK(!keyed_meet(&w));
}

int main(void)
{
	UNIT(lists_meet_at_common_keys);
	UNIT(empty_lists_meet_nowhere);
	return unit_end();
}

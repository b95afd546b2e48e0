/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_QUANTIZED_QLINEAR_H
#define CPU_QUANTIZED_QLINEAR_H
/* com.microsoft's operators with quantized inputs and outputs: QLinearAdd, QLinearConcat, QLinearSigmoid, ... */
#include "backend/backend.h"

int qconcat_run(const struct call *c);
int qglobal_reshape(struct site *s, struct step *st, struct diag *d);
int qglobal_run(const struct call *c);
int qbinary_reshape(struct site *s, struct step *st, struct diag *d);
int qadd_run(const struct call *c);
int qmultiply_run(const struct call *c);
int qconv_add_reshape(struct site *s, struct step *st, struct diag *d);
int qconv_add_run(const struct call *c);
int qtable_reshape(struct site *s, struct step *st, struct diag *d);
int qsigmoid_run(const struct call *c);
int qleaky_run(const struct call *c);
int code_table_reshape(struct site *s, struct step *st, struct diag *d);
int code_table_run(const struct call *c);
int all_codes_run(const struct call *c);

#endif

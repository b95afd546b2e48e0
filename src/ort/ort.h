/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORT_ORT_H
#define ORT_ORT_H
/*
 * ONNX Runtime as a reference: its C library is opened at run time where it is installed, and runs models on the CPU, as
 * their files are (without its graph optimizations). Nothing of ONNX Runtime is needed to build infer.
 */
#include "ir/tensor.h"

struct ort;
/*
 * Opens the library: in the folders of INFER_LIBRARY_PATH, beside the program, of the system, or in a Python environment
 * (site-packages/onnxruntime/capi). Fails with E-LIBRARY and returns NULL. The library stays loaded after ort_close(), as its
 * threads may outlive its environment.
 */
struct ort *ort_open(struct diag *d);
void ort_close(struct ort *o);
const char *ort_version(const struct ort *o); /* "1.23.2" */
const char *ort_path(const struct ort *o);

struct ort_session;
/*
 * Opens a model file. extra: names of n values inside the model's graph that become outputs as well; their bytes may be had
 * by ort_run(). threads: 0 for one per core. Fails with E-REFERENCE and ONNX Runtime's words; returns NULL.
 */
struct ort_session *ort_session_open(struct ort *o, const char *path, const char *const *extra,
				     size_t n, int64_t threads, struct diag *d);
void ort_session_close(struct ort_session *s);

/* An output. `t` is row-major in ONNX Runtime's memory (strings: in the arena); its kind is V_NONE if the value is no tensor of a type that we have. */
struct ort_value {
	struct tensor t;
	void *handle;
	struct ort *from;
	struct arena strings; /* of a tensor of strings, which ONNX Runtime has in another form */
};
/*
 * Runs the model once. in: row-major tensors in host memory for the inputs of these names, NULL for an input that is left to
 * its initializer. out: receives nout values, to be freed with ort_value_free() even after an error. Returns 0, -E_REFERENCE
 * with ONNX Runtime's words, or -E_MEMORY.
 */
int ort_run(struct ort_session *s, const char *const *in_name, const struct tensor *const *in,
	    size_t nin, const char *const *out_name, size_t nout, struct ort_value *out,
	    struct diag *d);
void ort_value_free(struct ort_value *v);

#endif

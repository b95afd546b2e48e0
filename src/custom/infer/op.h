/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_OP_H
#define INFER_OP_H
/*
 * Operators of your own for infer, in a shared library: infer run model.onnx --ops ./libmine.so
 *
 * The library exports one function, infer_op_library(), which returns a table of operators. Each operator says what its
 * operands and attributes may be, which shapes its outputs have, and how it is computed on the CPU, on a CUDA device, or
 * both. This header is all that a library needs: it links with nothing of infer, and C and C++ may include it.
 *
 *   INFER_OP_EXPORT const struct infer_op_library *infer_op_library(void);
 *
 * What the library returns must stay as it is until the program ends; infer copies nothing but texts of messages. Before a
 * function of an operator is called, infer has checked numbers, types and shapes of the operands and the attributes against
 * the tables here, for models and inputs may come from strangers. A function checks what the tables cannot say.
 *
 * Version 1. Another version has another INFER_OP_VERSION or other sizes of structs; infer refuses a library that was made
 * for a version that it does not know.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { INFER_OP_VERSION = 1, INFER_MAX_RANK = 16 };

#define INFER_OP_EXPORT __attribute__((visibility("default")))

/* ---- operands ---------------------------------------------------------------------------------- */

/* Element types, with the numbers of ONNX's TensorProto.DataType. Only these can be operands of an operator here. */
enum infer_type {
	INFER_F32 = 1,
	INFER_U8 = 2,
	INFER_I8 = 3,
	INFER_U16 = 4,
	INFER_I16 = 5,
	INFER_I32 = 6,
	INFER_I64 = 7,
	INFER_BOOL = 9, /* a byte, 0 or 1 */
	INFER_F16 = 10,
	INFER_F64 = 11,
	INFER_U32 = 12,
	INFER_U64 = 13,
	INFER_BF16 = 16
};
/* A set of types for struct infer_operand: INFER_TYPE(INFER_F32) | INFER_TYPE(INFER_F16). */
#define INFER_TYPE(type) (UINT64_C(1) << (type))

enum infer_operand_flags {
	INFER_OPTIONAL = 1, /* may be left out; the functions then see no data */
	/*
	 * The last input only: stands for one or more values, or for any number of them if it is optional, too. They have
	 * one type.
	 */
	INFER_VARIADIC = 2,
	/* shape() wants to read the elements of this input, which are given on the host if they are known by then */
	INFER_VALUE = 4
};

/* One input or output of an operator. A table of them ends with a NULL name. */
struct infer_operand {
	const char *name;
	/*
	 * A type variable, such as "T": operands with the same one have one element type. An output without type variable must
	 * get its type from shape().
	 */
	const char *type_variable;
	uint64_t types; /* INFER_TYPE() of all types that are allowed */
	/*
	 * The dimensions that an input may have; NULL if any. Names bind sizes ("N C", then "C" for another input), _ is any
	 * size, 4 this size, C? is C or 1, $group the value of an attribute, ... any number of dimensions, () a scalar;
	 * alternatives have | between: "C | 1".
	 */
	const char *dims;
	unsigned flags; /* INFER_OPTIONAL, ... */
};

/* What functions see of an operand. Data are dense and row-major. */
struct infer_tensor {
	int32_t type; /* enum infer_type; 0 if it is not known yet, or if the operand is left out */
	/* number of dimensions; -1 if it is not known yet (shape() alone sees that), or if the operand is left out */
	int32_t rank;
	/*
	 * In shape(), a negative number stands for a size that is not known yet. Copy it to the output's dimension that has
	 * the same size; an output's dimension of which nothing is known is -1.
	 */
	int64_t dim[INFER_MAX_RANK];
	/*
	 * In cpu() memory of the host, in cuda() of the device. In shape() the elements of an INFER_VALUE input, else NULL.
	 * NULL if the operand is left out; it may be NULL if there are no elements.
	 */
	void *data; /* read only, of inputs */
	size_t bytes;
};

/* ---- attributes -------------------------------------------------------------------------------- */

enum infer_attribute_type {
	INFER_ATTR_INT = 1,    /* int64_t */
	INFER_ATTR_FLOAT = 2,  /* float */
	INFER_ATTR_STRING = 3, /* const char *; NULL if it is absent */
	INFER_ATTR_INTS = 4,   /* struct infer_ints */
	INFER_ATTR_FLOATS = 5  /* struct infer_floats */
};
struct infer_ints {
	const int64_t *v;
	int64_t n; /* -1: absent */
};
struct infer_floats {
	const float *v;
	int64_t n; /* -1: absent */
};

/* An attribute, which infer stores in a struct of the library's. A table of them ends with a NULL name. */
struct infer_attribute {
	const char *name;
	int32_t type;  /* enum infer_attribute_type */
	size_t offset; /* offsetof() of the member in the struct, whose size is params_size */
	/* the value if the model has none, as text: "0.5", "1,2"; NULL: 0, NULL or n = -1 */
	const char *fallback;
	int32_t required; /* not 0: the model must have the attribute */
};

/* ---- operators --------------------------------------------------------------------------------- */

/* The arguments of an operator's functions. Everything here belongs to infer and ends with the call. */
struct infer_call {
	size_t size; /* sizeof(struct infer_call) of infer: later versions add members at the end */
	const void *params; /* the struct of attributes; NULL if params_size is 0 */
	uint32_t nin, nout;
	const struct infer_tensor *in;
	/* shape() sets type and dimensions; cpu() and cuda() write what `data` points to */
	struct infer_tensor *out;
	void *workspace; /* cpu() and cuda(): scratch memory of the bytes that workspace() returned, aligned to 64 */
	void *stream; /* cuda(): the CUstream (cudaStream_t) in which all work must be queued; its context is current */
	/*
	 * Returns -1 after it has noted why the call fails, for the user: return call->fail(call, "K is odd"). The text is
	 * copied.
	 */
	int (*fail)(const struct infer_call *call, const char *message);
	/*
	 * cpu(): splits 0..n-1 into pieces of at least `grain`, calls body(arg, begin, end) for them in infer's threads
	 * (--threads), and returns when all are done.
	 */
	void (*parallel)(const struct infer_call *call, int64_t n, int64_t grain,
			 void (*body)(void *arg, int64_t begin, int64_t end), void *arg);
};

enum infer_op_flags {
	INFER_OP_RANDOM =
		1, /* equal operands may give different results: such nodes are never merged or computed in advance */
	/* cuda() does nothing but launch kernels and queue copies on the stream, so that a CUDA graph may record it */
	INFER_OP_LAUNCHES_ONLY = 2
};

/* An operator. Functions return 0, or what call->fail() returned; any other value is an error without a reason. */
struct infer_op {
	const char *name;   /* as NodeProto.op_type: letters, digits and _ */
	const char *domain; /* as NodeProto.domain: not that of ONNX and not "infer" */
	int32_t version;    /* of the domain, from which on the operator exists: 1 or more */
	uint32_t flags;	    /* INFER_OP_... */
	const struct infer_operand *inputs, *outputs;
	const struct infer_attribute *attributes; /* NULL: none */
	size_t params_size;
	/*
	 * Sets type and shape of the outputs from the inputs. It is called several times, at first perhaps before shapes are
	 * known. When all of them are known, the outputs' shapes must be complete.
	 */
	int (*shape)(const struct infer_call *call);
	/* Returns the bytes of scratch memory that cpu() or cuda() needs for these shapes; NULL: none. Data are not known yet. */
	int64_t (*workspace)(const struct infer_call *call);
	/* Computes the outputs on the host; NULL if the operator runs on CUDA devices only. */
	int (*cpu)(const struct infer_call *call);
	/*
	 * Queues the computation on call->stream and returns; NULL if there is none, and the operator then runs on the host, with
	 * copies before and after. It must not wait for the device.
	 */
	int (*cuda)(const struct infer_call *call);
};

struct infer_op_library {
	uint32_t version; /* INFER_OP_VERSION */
	uint32_t op_size; /* sizeof(struct infer_op) */
	const char *name; /* of the library, for messages; NULL: that of its file */
	const struct infer_op *ops;
	uint32_t nops;
};

typedef const struct infer_op_library *infer_op_library_fn(void);

#ifdef __cplusplus
}
#endif

#endif

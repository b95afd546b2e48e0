/* SPDX-License-Identifier: Apache-2.0 */
/* Where a model's external data lie: each line KEY=VALUE is an entry of external_data of one initializer. */
#include "onnx/load.h"
#include "onnx.pb-c.h"
#include "test/fuzz/file.h"

#include <string.h>

enum { MAX_ENTRIES = 8 };

/* A folder with a file, a link that leaves it and a folder. */
static const char *root(void)
{
	static char path[] = "/tmp/fuzz-external-XXXXXX";
	static bool made;

	if (!made) {
		int in = mkdtemp(path) ? open(path, O_DIRECTORY | O_CLOEXEC) : -1;
		if (in < 0 || symlinkat("/etc/passwd", in, "out") || symlinkat(".", in, "d"))
			abort();
		int fd = openat(in, "w", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0 || write(fd, "0123456789abcdef", 16) != 16 || close(fd) || close(in))
			abort();
		made = true;
	}
	return path;
}

static void load(Onnx__TensorProto *t)
{
	static uint8_t bytes[1 << 16];
	Onnx__ModelProto m = ONNX__MODEL_PROTO__INIT;
	Onnx__GraphProto g = ONNX__GRAPH_PROTO__INIT;
	Onnx__OperatorSetIdProto o = ONNX__OPERATOR_SET_ID_PROTO__INIT, *imports[] = {&o};
	Onnx__ValueInfoProto out = ONNX__VALUE_INFO_PROTO__INIT, *outs[] = {&out};
	Onnx__TensorProto *weights[] = {t};
	struct load_options options = {.external_root = root()};
	struct diag d = {0};

	o.version = 13;
	o.has_version = 1;
	out.name = t->name;
	g.initializer = weights;
	g.output = outs;
	m.opset_import = imports;
	g.n_initializer = g.n_output = m.n_opset_import = 1;
	m.graph = &g;
	m.ir_version = 8;
	m.has_ir_version = 1;
	if (onnx__model_proto__get_packed_size(&m) > sizeof(bytes))
		return;
	size_t n = onnx__model_proto__pack(&m, bytes);
	onnx_unload(onnx_load(file_with(bytes, n), &options, &d));
	diag_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Onnx__StringStringEntryProto entry[MAX_ENTRIES], *entries[MAX_ENTRIES];
	Onnx__TensorProto t = ONNX__TENSOR_PROTO__INIT;
	int64_t dims[] = {2};
	char *text = strndup((const char *)data, size), *rest = text, *line;

	t.name = (char *)(uintptr_t) "w";
	t.data_type = t.has_data_type = t.has_data_location = 1;
	t.data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
	t.dims = dims;
	t.n_dims = 1;
	t.external_data = entries;
	while (text && (line = strsep(&rest, "\n")) && t.n_external_data < MAX_ENTRIES) {
		Onnx__StringStringEntryProto *e = &entry[t.n_external_data];
		onnx__string_string_entry_proto__init(e);
		e->key = strsep(&line, "=");
		e->value = line;
		entries[t.n_external_data++] = e;
	}
	load(&t);
	free(text);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * models DIR         writes every case of models.h to DIR/NAME.onnx, and the files that they want beside them
 * models --list      prints a line each: name, code ("-" where the model loads)
 */
#define _GNU_SOURCE
#include "models.h"

#include <sys/stat.h>
#include <unistd.h>

static int write_file(const char *dir, const char *name, const void *p, size_t n)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "wb");
	if (!f || fwrite(p, 1, n, f) != n || fclose(f)) {
		perror(path);
		return 1;
	}
	return 0;
}

static int write_cases(const char *dir)
{
	char name[128];

	for (int i = 0; i < MODEL_CASES; i++) {
		struct w m = {0};
		model_cases[i].make(&m);
		snprintf(name, sizeof(name), "%s.onnx", model_cases[i].name);
		int bad = write_file(dir, name, m.p ? m.p : (unsigned char *)name, m.n);
		w_free(&m);
		if (bad)
			return 1;
	}
	return write_file(dir, "weights.bin", "012345678901234567890123", 24);
}

/* A link out of the folder, what it leads to, and a folder. */
static int write_around(const char *dir)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/sub", dir);
	mkdir(path, 0777);
	snprintf(path, sizeof(path), "%s/link.bin", dir);
	unlink(path);
	if (symlink("../secret.bin", path)) {
		perror(path);
		return 1;
	}
	return write_file(dir, "../secret.bin", "012345678901234567890123", 24);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return fputs("usage: models DIR | --list\n", stderr), 2;
	if (strcmp(argv[1], "--list"))
		return write_cases(argv[1]) || write_around(argv[1]);
	for (int i = 0; i < MODEL_CASES; i++)
		printf("%s %s\n", model_cases[i].name,
		       *model_cases[i].code ? model_cases[i].code : "-");
	return 0;
}

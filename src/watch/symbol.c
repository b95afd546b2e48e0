/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/symbol.h"

#include "base/file.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* An ELF file that may be damaged or hostile: every offset in it is checked before use. */
struct image {
	const unsigned char *data;
	size_t size;
};

static const void *checked_range(const struct image *m, uint64_t offset, uint64_t n, uint64_t each)
{
	uint64_t bytes;

	if (__builtin_mul_overflow(n, each, &bytes) || offset > m->size ||
	    bytes > m->size - offset || offset % 8)
		return NULL;
	return m->data + offset;
}

/* Returns the virtual address at which the file's first byte would be loaded without relocation. */
static uint64_t base_of(const struct image *m, const Elf64_Ehdr *h)
{
	const Elf64_Phdr *p = checked_range(m, h->e_phoff, h->e_phnum, sizeof(*p));

	for (unsigned i = 0; p && i < h->e_phnum; i++)
		if (p[i].p_type == PT_LOAD)
			return p[i].p_vaddr - p[i].p_offset;
	return 0;
}

static bool name_in(const struct image *m, const Elf64_Shdr *table, const Elf64_Shdr *strings,
		    uint64_t address, char *text, size_t room)
{
	size_t n = table->sh_size / sizeof(Elf64_Sym);
	const Elf64_Sym *s = checked_range(m, table->sh_offset, n, sizeof(*s));

	if (!s || strings->sh_offset > m->size || strings->sh_size > m->size - strings->sh_offset)
		return false;
	const char *names = (const char *)m->data + strings->sh_offset;
	for (size_t i = 0; i < n; i++) {
		if (ELF64_ST_TYPE(s[i].st_info) != STT_FUNC || address < s[i].st_value ||
		    address - s[i].st_value >= s[i].st_size || s[i].st_name >= strings->sh_size)
			continue;
		size_t most = strings->sh_size - s[i].st_name;
		snprintf(text, room, "%.*s+0x%" PRIx64, (int)(most < 80 ? most : 80),
			 names + s[i].st_name, address - s[i].st_value);
		return true;
	}
	return false;
}

static bool find_function(const struct image *m, uint64_t offset, char *text, size_t room)
{
	const Elf64_Ehdr *h = checked_range(m, 0, 1, sizeof(*h));

	if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 ||
	    h->e_shentsize != sizeof(Elf64_Shdr) || h->e_phentsize != sizeof(Elf64_Phdr))
		return false;
	const Elf64_Shdr *section = checked_range(m, h->e_shoff, h->e_shnum, sizeof(*section));
	for (unsigned i = 0; section && i < h->e_shnum; i++)
		if (section[i].sh_type == SHT_SYMTAB && section[i].sh_link < h->e_shnum)
			return name_in(m, &section[i], &section[section[i].sh_link],
				       offset + base_of(m, h), text, room);
	return false;
}

bool symbol_name(const char *path, uint64_t offset, char *text, size_t room)
{
	struct file_map f;

	if (file_map(path, &f, E_CHECK, NULL))
		return false;
	struct image m = {f.data, f.size};
	bool found = find_function(&m, offset, text, room);
	file_unmap(&f);
	return found;
}

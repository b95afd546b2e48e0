# infer. `make help` lists the targets; CONTRIBUTING.md tells how the tree is laid out.
#
# A new .c file needs no edit here: sources are found by wildcard and compiled by one rule.
#   V=1                         show the commands
#   DEVELOPER=1                 the full warning profile, and a warning is an error
#   SANITIZE=address,undefined  instrument; CC=clang another compiler. Both build in a folder of their own
#   FAULTS=1                    the fault-injection build, for tests of `infer check`; in a folder of its own, too
#   CC=aarch64-linux-gnu-gcc SYSROOT=DIR   cross-compile; DIR has the libraries of the target (make arm64 does both)
#   BUILD=DIR                   build there instead of in build/
# config.mak, where it exists, may set any of these.

.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

-include config.mak
BUILD ?= build
DEPS ?= build/deps

# The build runs on all cores unless told otherwise.
ifeq ($(filter -j%,$(MAKEFLAGS))$(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

# `deps` changes what the rest of this file looks for. Where it is among the goals it runs first, and the
# other goals in a make of their own, which reads this file anew.
BOOT := $(filter deps deps-dev deps-cuda,$(MAKECMDGOALS))
REST := $(filter-out deps deps-dev deps-cuda,$(MAKECMDGOALS))
ifneq ($(BOOT),)

.PHONY: $(MAKECMDGOALS)
$(BOOT):
	@tools/deps.sh $(DEPS) $(if $(filter deps-dev,$(BOOT)),dev) $(if $(filter deps-cuda,$(BOOT)),cuda)
# several asked for: the first does it all, the others have nothing left to do
$(foreach b,$(wordlist 2,3,$(BOOT)),$(eval $(b): $(firstword $(BOOT))))
ifneq ($(REST),)
$(firstword $(REST)): $(BOOT)
	@+$(MAKE) --no-print-directory $(REST)
$(wordlist 2,$(words $(REST)),$(REST)): $(firstword $(REST)) ;
endif

else

# --- the configuration

ifeq ($(origin CC),default)
CC := gcc
endif
comma := ,
CONFIG := $(filter-out gcc cc,$(notdir $(lastword $(CC)))) $(subst $(comma),-,$(SANITIZE)) $(if $(FAULTS),faults)
OUT := $(BUILD)$(if $(strip $(CONFIG)),/$(subst $() $(),-,$(strip $(CONFIG))))
OBJ := $(OUT)/obj
GEN := $(OUT)/gen
INFER := $(OUT)/bin/infer

# Libraries whose headers we include. Linked: the first three. The codecs of pictures and sounds are opened when one is read.
PACKAGES := libprotobuf-c yaml-0.1 zlib libpng libjpeg libwebp libtiff-4 libopenjp2 libheif sndfile soxr
# STATIC=1 puts them inside the program.
LIBS := $(if $(STATIC),-l:libprotobuf-c.a -l:libyaml.a -l:libz.a,-lprotobuf-c -lyaml -lz) -lm -ldl -lpthread

TARGET := $(shell $(CC) -dumpmachine)
PKG_CONFIG := $(if $(SYSROOT),PKG_CONFIG_SYSROOT_DIR='$(abspath $(SYSROOT))' PKG_CONFIG_LIBDIR='$(abspath $(SYSROOT))/usr/lib/$(TARGET)/pkgconfig:$(abspath $(SYSROOT))/usr/share/pkgconfig') pkg-config

# oneDNN: the system's, if it is version 3; else the one `make deps` fetched; else reference kernels only.
DNNL := $(DEPS)/onednn
ifeq ($(shell $(PKG_CONFIG) --exists 'dnnl >= 3' 2>/dev/null && echo yes),yes)
HAVE_DNNL := 1
# Debian's library has a number of its own in its name (libdnnl.so.3.6), by which it must be opened.
DNNL_NAME := $(shell objdump -p "`$(PKG_CONFIG) --variable=libdir dnnl`/libdnnl.so" 2>/dev/null | sed -n 's/^ *SONAME *//p')
DNNL_CFLAGS := $(shell $(PKG_CONFIG) --cflags dnnl)
# The wheel is for x86-64.
else ifneq ($(and $(filter x86_64-%,$(TARGET)),$(wildcard $(DNNL)/include/oneapi/dnnl/dnnl.h)),)
HAVE_DNNL := 1
DNNL_CFLAGS := -isystem $(DNNL)/include
DNNL_LIB := $(OUT)/lib/libdnnl.so.3
else
HAVE_DNNL := 0
endif

# CUDA: the backend is built where nvcc is, be it installed or fetched by `make deps-cuda` (CUDA=DIR names its folder;
# CUDA=no leaves it out). Kernels are compiled for the architectures in GPU_ARCHS: by default those of the GPUs in the
# machine, and with none, or with GPU_ARCHS=release, all of them. PTX of GPU_PTX comes with either; the driver compiles it for
# devices that none of them fits (GPU_PTX= leaves it out).
CUDA ?= $(patsubst %/bin/nvcc,%,$(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc $(DEPS)/cuda/bin/nvcc)))
ALL_GPU_ARCHS := 75 80 86 89 90 100 120
ifeq ($(origin GPU_ARCHS),undefined)
GPU_ARCHS := $(sort $(subst .,,$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -x '[0-9]*[.][0-9]')))
endif
ifneq ($(filter-out release,$(GPU_ARCHS)),$(strip $(or $(GPU_ARCHS),none)))
override GPU_ARCHS := $(ALL_GPU_ARCHS)
endif
GPU_PTX ?= 80
ifneq ($(wildcard $(CUDA)/include/cublasLt.h),)
HAVE_CUDA := 1
# A toolkit has no cuDNN: its headers are those of the wheel where that was fetched. Fetched libraries lie beside the program, as links.
CUDA_CFLAGS := -isystem $(CUDA)/include $(if $(wildcard $(DEPS)/cuda/include/*.h),-isystem $(DEPS)/cuda/include)
# (FETCHED_CUDA=no: none)
CUDA_LIBS := $(if $(filter no,$(FETCHED_CUDA)),,$(patsubst $(DEPS)/cuda/lib/%,$(OUT)/lib/%,$(wildcard $(DEPS)/cuda/lib/*.so.*)))
GPU_CU := $(sort $(wildcard gpu/kernels/*.cu))
else
HAVE_CUDA := 0
endif

# --- flags: CPPFLAGS, CFLAGS and LDFLAGS are the user's and come last

WARN := -Wall -Wextra
# Instrumented code makes gcc warn of conversions that are not there; clang warns of the code before it instruments it.
ifneq ($(and $(DEVELOPER),$(if $(SANITIZE),$(findstring clang,$(CC)),yes)),)
WARN += -Werror -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
	-Wvla -Wundef -Wformat=2 -Wcast-qual -Wwrite-strings -Wpointer-arith \
	$(if $(findstring clang,$(CC)),-Wno-gnu-zero-variadic-macro-arguments -Wno-pass-failed)
endif

ifdef SANITIZE
# reports name lines and no variables; 80 programs are linked
CFLAGS ?= -O1 -g1
# The sanitizers' dlopen searches the program's DT_RPATH but not its DT_RUNPATH.
HARDEN := -fno-omit-frame-pointer
HARDEN_LD := -Wl,--disable-new-dtags
SANITIZE_FLAGS := -fsanitize=$(SANITIZE) -fno-sanitize-recover=all
else
CFLAGS ?= -O2 -g
HARDEN := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
endif
# Of these, each that the compiler knows for its target: it must take them without a warning.
accepted = $(shell $(CC) -Werror $(1) -x c -c -o /dev/null /dev/null 2>/dev/null && echo '$(1)')
BRANCHES := $(call accepted,-fcf-protection=full)
HARDEN += -fstack-protector-strong $(call accepted,-fstack-clash-protection) $(BRANCHES) -fPIE
# The linker marks a program for shadow stacks and branch tracking only if all of its objects are; these two insist, with a warning.
HARDEN_LD += -pie -Wl,-z,relro,-z,now $(if $(BRANCHES),-Wl$(comma)-z$(comma)ibt$(comma)-z$(comma)shstk)

PKG_CFLAGS := $(patsubst -I%,-isystem%,$(shell $(PKG_CONFIG) --cflags $(PACKAGES) 2>/dev/null))
# Debug information names no folder of this machine, so that builds of one commit are the same everywhere.
FLAGS_C = $(SYSROOT:%=--sysroot=%) -std=gnu17 -D_GNU_SOURCE -ffile-prefix-map='$(CURDIR)'=. -ffile-prefix-map='$(abspath $(OUT))'=./build -ffp-contract=off -fvisibility=hidden -fno-common $(HARDEN) $(SANITIZE_FLAGS) \
	-Isrc -I. -isystem $(GEN) $(PKG_CFLAGS) $(DNNL_CFLAGS) -DHAVE_DNNL=$(HAVE_DNNL) -DDNNL_NAME='"$(or $(DNNL_NAME),libdnnl.so.3)"' $(CUDA_CFLAGS) -DHAVE_CUDA=$(HAVE_CUDA) $(if $(FAULTS),-DFAULTS) $(CPPFLAGS) $(CFLAGS)
RPATH ?= $$ORIGIN/../lib:$$ORIGIN/../lib/infer
# libdnnl finds the thread pool's GOMP and omp symbols and an operator new in the program, and lies beside it (lib/infer: installed).
FLAGS_LD = $(HARDEN_LD) $(SANITIZE_FLAGS) -Wl,--as-needed \
	-Wl,--export-dynamic-symbol='GOMP_*' -Wl,--export-dynamic-symbol='omp_*' -Wl,--export-dynamic-symbol=_Znwm \
	$(if $(RPATH),-Wl$(comma)-rpath$(comma)'$(RPATH)') $(LDFLAGS)

# Everything is built anew when the flags change: they are kept in a file that the objects depend on.
FLAGS_USED := $(strip $(CC) $(WARN) $(FLAGS_C) $(FLAGS_LD))
ifneq ($(FLAGS_USED),$(file <$(OUT)/flags))
$(shell mkdir -p $(OUT))$(file >$(OUT)/flags,$(FLAGS_USED))
endif

# --- sources

# The library that is injected into watched programs is built apart, and kernels by nvcc.
FOLDERS := cmd cmd/* src/* src/*/* onnx gpu gpu/*
SRC := $(filter-out src/watch/inject/%,$(sort $(wildcard $(FOLDERS:=/*.c))))
HDR := $(sort $(wildcard $(FOLDERS:=/*.h)))
UNIT_SRC := $(sort $(wildcard test/unit/*.c))
# Without CUDA only gpu/backend.c is compiled, whose backend then has no device and no kernels, and tests of the rest are left out.
ifeq ($(HAVE_CUDA),0)
NEED_CUDA := gpu/driver/% gpu/launch/% gpu/library/% gpu/ops/%
SRC := $(filter-out $(NEED_CUDA),$(SRC))
HDR := $(filter-out $(NEED_CUDA),$(HDR))
UNIT_SRC := $(filter-out $(shell grep -lE '"($(subst $() $(),|,$(NEED_CUDA:%/%=%/)))' $(UNIT_SRC)),$(UNIT_SRC))
endif
ifeq ($(wildcard $(CUDA)/include/cupti.h),)
HDR := $(filter-out src/watch/inject/inject.h,$(HDR))
endif

# X.simd.c is compiled once for each instruction set level; the table to use is chosen when the program runs.
ifneq ($(filter x86_64-%,$(TARGET)),)
SIMD_LEVELS := 2 3 4
LIMIT := $(OUT)/bench/limit.so
else
SIMD_LEVELS := 0
endif
SIMD_FLAGS = -DSIMD_LEVEL=$(1) $(if $(filter-out 0,$(1)),-march=x86-64-v$(1))
SIMD_SRC := $(filter %.simd.c,$(SRC))

OBJS := $(patsubst %.c,$(OBJ)/%.o,$(filter-out $(SIMD_SRC),$(SRC))) \
	$(foreach l,$(SIMD_LEVELS),$(patsubst %.c,$(OBJ)/%.v$(l).o,$(SIMD_SRC))) \
	$(OBJ)/onnx.pb-c.o $(OBJ)/selftest_cases.o $(OBJ)/version.o $(if $(filter 1,$(HAVE_CUDA)),$(OBJ)/gpu_images.o)
PARTS := $(filter-out $(OBJ)/cmd/main.o,$(OBJS))

FUZZ_SRC := $(sort $(wildcard test/fuzz/*.c))
CONFORMANCE_SRC := $(sort $(wildcard test/conformance/*.c))
UNIT := $(UNIT_SRC:test/unit/%.c=$(OUT)/unit/%)
FUZZ := $(FUZZ_SRC:test/fuzz/%.c=$(OUT)/fuzz/%)
CONFORMANCE := $(if $(CONFORMANCE_SRC),$(OUT)/conformance/run)

# --- the build

ifdef V
say = $(2)
else
say = @printf '  %-7s %s\n' '$(1)' '$@'; $(2)
endif
LINK = $(CC) $(FLAGS_C) -o $@ $(filter %.o,$^) $(FLAGS_LD) $(LIBS)

.PHONY: all
all: $(INFER)

$(INFER): $(OBJS) $(DNNL_LIB) $(CUDA_LIBS)
	@mkdir -p $(@D)
	$(call say,LINK,$(LINK))
	$(if $(filter 0,$(HAVE_DNNL)),@echo 'note: built without oneDNN (own loops only)$(if $(filter x86_64-%,$(TARGET)),; `make deps` fetches it)')

$(DNNL_LIB): $(DNNL)/lib/libdnnl.so.3
	@mkdir -p $(@D)
	$(call say,COPY,cp -f $< $@)

$(CUDA_LIBS): $(OUT)/lib/%: $(DEPS)/cuda/lib/%
	@mkdir -p $(@D)
	$(call say,LN,ln -sf $(abspath $<) $@)

# The compile rule: $(1) is the object's suffix, $(2) its flags.
define COMPILE
$(OBJ)/%$(1): %.c $(OUT)/flags | $(GEN)/onnx.pb-c.h
	@mkdir -p $$(@D)
	$$(call say,CC,$$(CC) $$(WARN) $$(FLAGS_C) $$(KERNEL_OPT) $(2) -MMD -MP -c -o $$@ $$<)
endef
# Kernels are loops: where the flags are the usual ones they are compiled with more zeal.
$(OBJ)/src/cpu/% $(OBJ)/src/image/%: KERNEL_OPT = $(if $(filter -O2,$(CFLAGS)),-O3)
$(eval $(call COMPILE,.o,))
$(foreach l,$(SIMD_LEVELS),$(eval $(call COMPILE,.v$(l).o,$(call SIMD_FLAGS,$(l)))))

# Kernels of the GPU, one image a file (and one of PTX where it is built), all of them inside the program. Debian package and
# release tarball take them from one folder, so that they are compiled once.
KERNELS ?= $(BUILD)/gpu
GPU_FATBIN := $(GPU_CU:gpu/kernels/%.cu=$(KERNELS)/%.fatbin) \
	$(if $(GPU_PTX),$(GPU_CU:gpu/kernels/%.cu=$(KERNELS)/ptx/%.fatbin))
# The names of static functions hold a hash of the file's whole path, unless the compiler behind nvcc is told of another.
NVCC = $(CUDA)/bin/nvcc -std=c++17 -O3 -fatbin --compress-mode=size -diag-suppress 186 -Xcicc --orig_src_path_name=$< -Igpu/kernels -Isrc \
	-MMD -MP -MF $(@:.fatbin=.d) -MT $@
GPU_HDR := $(filter-out %/image.h,$(wildcard gpu/kernels/*.h gpu/kernels/*.cuh)) src/ir/element_types.def src/ops/unary.def src/ops/pointwise.def
# Devices of 8.x share PTX, and so do those of 10.0 and 12.0: neither our kernels nor the headers of CUDA that they include ask for
# more than 8.0 or 9.0. The front half of the compiler, which takes half of the time, runs four times instead of seven.
front = $(if $(filter 7%,$(1)),$(1),$(if $(filter 8%,$(1)),80,$(if $(filter 9%,$(1)),90,100)))
# Products of warpgroups are instructions of 9.0 alone, which is then named 90a.
backs = $(foreach a,$(GPU_ARCHS),$(if $(filter $(1),$(call front,$(a))),sm_$(a:90=90a)))
GENCODE := $(foreach f,$(sort $(foreach a,$(GPU_ARCHS),$(call front,$(a)))),\
	-gencode 'arch=compute_$(f:90=90a)$(comma)code=[$(subst $() $(),$(comma),$(strip $(call backs,$(f))))]')
-include $(wildcard $(KERNELS)/*.d $(KERNELS)/ptx/*.d)
$(KERNELS)/%.fatbin: gpu/kernels/%.cu $(KERNELS)/archs
	@mkdir -p $(@D)
	$(call say,NVCC,$(NVCC) $(GENCODE) -o $@ $<)
$(KERNELS)/ptx/%.fatbin: gpu/kernels/%.cu $(KERNELS)/archs
	@mkdir -p $(@D)
	$(call say,NVCC,$(NVCC) -gencode arch=compute_$(GPU_PTX)$(comma)code=compute_$(GPU_PTX) -o $@ $<)
# "headers": kernels of builds that have not noted which headers each includes are compiled anew.
GPU_CODE := $(strip $(GPU_ARCHS) $(GPU_PTX:%=ptx%) headers)
ifneq ($(GPU_CODE),$(file <$(KERNELS)/archs))
$(shell mkdir -p $(KERNELS))$(file >$(KERNELS)/archs,$(GPU_CODE))
endif
$(KERNELS)/archs: ;
define EMBED
__asm__(".section .rodata\n.balign 16\n$(1):\n.incbin \"$(2)\"\n.previous");
extern const unsigned char $(1)[];

endef
define GPU_IMAGES
#include "gpu/kernels/image.h"
$(foreach f,$(GPU_CU:gpu/kernels/%.cu=%),$(call EMBED,gpu_image_$(f),$(KERNELS)/$(f).fatbin)$(if $(GPU_PTX),$(call EMBED,gpu_ptx_$(f),$(KERNELS)/ptx/$(f).fatbin)))
const struct gpu_image gpu_images[] = {
$(foreach f,$(GPU_CU:gpu/kernels/%.cu=%),{"$(f)", gpu_image_$(f), $(if $(GPU_PTX),gpu_ptx_$(f),0)}, )
{0}};
const int gpu_archs[] = {$(foreach a,$(GPU_ARCHS),$(a), )0};
const int gpu_ptx = $(or $(GPU_PTX),0);
endef
$(GEN)/gpu_images.c: $(GPU_FATBIN)
	$(shell mkdir -p $(@D))$(file >$@,$(GPU_IMAGES))
$(OBJ)/gpu_images.o: $(GEN)/gpu_images.c $(GPU_FATBIN) $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$(CC) -w $(FLAGS_C) -c -o $@ $<)

# The same kernels for the CPU, for tests: kernels.so computes, checked.so looks at every access as well (test/gpu/emulate);
# libcuda.so.1 is the driver that runs them. Both compilers do for the first, clang alone tells the second of everything.
# EMULATE_TURING=1: what devices before sm_80 run, in a folder of its own.
EMULATE := $(BUILD)/emulate$(if $(EMULATE_TURING),-turing)
EMULATE_CXX ?= clang++
EMULATE_HDR := $(GPU_HDR) $(wildcard test/gpu/emulate/*.h)
EMULATE_FLAGS := -std=gnu++17 -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-strict-aliasing \
	-ffp-contract=off -isystem $(CUDA)/include -Itest/gpu/emulate -Igpu/kernels -Isrc $(if $(EMULATE_TURING),-DTURING)
EMULATE_LOOKS := -fsanitize=thread,alignment
EMULATE_LINK = $(EMULATE_CXX) -shared -o $@ $^ -Wl,-z,defs -ldl -lm -lpthread
$(EMULATE)/kernels/%.o: gpu/kernels/%.cu $(EMULATE_HDR)
	@mkdir -p $(@D)
	$(call say,CXX,$(EMULATE_CXX) $(EMULATE_FLAGS) -w -O2 -g1 -include test/gpu/emulate/cuda.h -x c++ -c -o $@ $<)
$(EMULATE)/checked/%.o: gpu/kernels/%.cu $(EMULATE_HDR)
	@mkdir -p $(@D)
	$(call say,CXX,$(EMULATE_CXX) $(EMULATE_FLAGS) -w -O1 -g1 $(EMULATE_LOOKS) -include test/gpu/emulate/cuda.h -x c++ -c -o $@ $<)
$(EMULATE)/%.o: test/gpu/emulate/%.cc $(EMULATE_HDR)
	@mkdir -p $(@D)
	$(call say,CXX,$(EMULATE_CXX) $(EMULATE_FLAGS) -Wall -Wextra $(if $(DEVELOPER),-Werror) -O2 -g -c -o $@ $<)
$(EMULATE)/kernels.so: $(GPU_CU:gpu/kernels/%.cu=$(EMULATE)/kernels/%.o) $(EMULATE)/kernels/libraries.o $(EMULATE)/run.o
	$(call say,LINK,$(EMULATE_LINK))
# what the stand-ins for libraries compute is a kernel, too
$(EMULATE)/%/libraries.o: test/gpu/emulate/libraries.cu $(EMULATE_HDR)
	@mkdir -p $(@D)
	$(call say,CXX,$(EMULATE_CXX) $(EMULATE_FLAGS) -w -O1 -g1 $(if $(filter checked,$*),$(EMULATE_LOOKS)) -include test/gpu/emulate/cuda.h -x c++ -c -o $@ $<)
$(EMULATE)/checked.so: $(GPU_CU:gpu/kernels/%.cu=$(EMULATE)/checked/%.o) $(EMULATE)/checked/libraries.o $(EMULATE)/run.o $(EMULATE)/check.o
	$(call say,LINK,$(EMULATE_LINK) -Wl$(comma)--wrap=memcpy$(comma)--wrap=memset$(comma)--wrap=memmove)
# what the emulator tells is tested with kernels that are wrong
$(EMULATE)/faults.o: test/gpu/emulate/faults.cu $(EMULATE_HDR)
	@mkdir -p $(@D)
	$(call say,CXX,$(EMULATE_CXX) $(EMULATE_FLAGS) -w -O1 -g1 $(EMULATE_LOOKS) -include test/gpu/emulate/cuda.h -x c++ -c -o $@ $<)
$(EMULATE)/faults.so: $(EMULATE)/faults.o $(EMULATE)/run.o $(EMULATE)/check.o
	$(call say,LINK,$(EMULATE_LINK) -Wl$(comma)--wrap=memcpy$(comma)--wrap=memset$(comma)--wrap=memmove)
$(EMULATE)/faults: test/gpu/emulate/faults.c $(EMULATE)/faults.so
	$(call say,CC,$(CC) -std=gnu17 -O2 $(WARN) -o $@ $< -ldl)
$(EMULATE)/libcuda.so.1: $(wildcard test/gpu/fake/*.[ch])
	@mkdir -p $(@D)
	$(call say,CC,$(CC) -shared -fPIC -w -o $@ test/gpu/fake/cuda.c)
EMULATE_LIBRARY = $(CC) -std=gnu17 -shared -fPIC -O1 $(WARN) $(CUDA_CFLAGS) -fvisibility=hidden -o $@ $<
$(EMULATE)/libcublasLt.so.13: test/gpu/fake/cublaslt.c test/gpu/fake/library.h test/gpu/emulate/libraries.h
	@mkdir -p $(@D)
	$(call say,CC,$(EMULATE_LIBRARY))
# its parts must lie beside it
$(EMULATE)/libcudnn.so.9: test/gpu/fake/cudnn.c test/gpu/fake/library.h test/gpu/emulate/libraries.h
	@mkdir -p $(@D)
	$(call say,CC,$(EMULATE_LIBRARY))
	@for part in graph engines_precompiled engines_runtime_compiled heuristic; do \
		ln -sf libcudnn.so.9 $(@D)/libcudnn_$$part.so.9; done
EMULATE_LIBRARIES := $(EMULATE)/libcublasLt.so.13 $(if $(wildcard $(CUDA)/include/cudnn.h),$(EMULATE)/libcudnn.so.9)
.PHONY: emulate emulate-checked
emulate: $(EMULATE)/kernels.so $(EMULATE)/libcuda.so.1
emulate-checked: $(EMULATE)/checked.so $(EMULATE)/libcuda.so.1 $(EMULATE)/faults $(EMULATE_LIBRARIES)

# Cases of `infer selftest`, an archive inside the program. Its bytes depend on the cases alone.
SELFTEST_CASES := test/conformance/cases/small.tar.gz
$(GEN)/selftest.tar: $(SELFTEST_CASES) cmd/selftest.txt
	@rm -rf $(GEN)/selftest && mkdir -p $(GEN)/selftest
	@tar -C $(GEN)/selftest -xzf $(SELFTEST_CASES) $$(sed 's,^,node/,' cmd/selftest.txt)
	$(call say,TAR,(cd $(GEN)/selftest/node && find . -type f | sed 's/^..//' | LC_ALL=C sort) | \
		tar -C $(GEN)/selftest/node --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=644 -T - -cf $@)
define SELFTEST
__asm__(".section .rodata\n.balign 16\n.globl selftest_cases, selftest_cases_end\nselftest_cases:\n"
	".incbin \"$(GEN)/selftest.tar\"\nselftest_cases_end:\n.previous");
endef
$(GEN)/selftest_cases.c: $(GEN)/selftest.tar
	$(file >$@,$(SELFTEST))
$(OBJ)/selftest_cases.o: $(GEN)/selftest_cases.c $(GEN)/selftest.tar $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$(CC) -w $(FLAGS_C) -c -o $@ $<)

# What `infer --version` says. The file is written anew only if the version is another one.
VERSION_SOURCE := const char infer_build[] = "$(shell tools/version.sh)";
ifneq ($(VERSION_SOURCE),$(file <$(GEN)/version.c))
$(shell mkdir -p $(GEN))$(file >$(GEN)/version.c,$(VERSION_SOURCE))
endif
$(GEN)/version.c: ;
$(OBJ)/version.o: $(GEN)/version.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$(CC) -w $(FLAGS_C) -c -o $@ $<)

# The library that `check -- COMMAND` injects into another program: libc alone, inside the program like the kernels.
WATCH_LIB := $(if $(wildcard $(CUDA)/include/cupti.h),$(BUILD)/lib/libinfer-watch.so)
$(BUILD)/lib/libinfer-watch.so: $(wildcard src/watch/inject/*.[ch])
	@mkdir -p $(@D)
	$(call say,CC,$(CC) -shared -fPIC -O2 $(BRANCHES) $(WARN) -std=gnu17 -D_GNU_SOURCE -fvisibility=hidden -fno-common -Isrc -I. $(CUDA_CFLAGS) \
		-Wl$(comma)-z$(comma)defs -Wl$(comma)-z$(comma)nodelete -o $@ $(filter %.c,$^))
ifneq ($(WATCH_LIB),)
$(OBJ)/src/watch/library.o: KERNEL_OPT = -DWATCH_LIBRARY='"$(WATCH_LIB)"'
$(OBJ)/src/watch/library.o: $(WATCH_LIB)
endif

# What protoc-c writes is not ours: no warnings.
$(OBJ)/onnx.pb-c.o: $(GEN)/onnx.pb-c.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$(CC) -w $(FLAGS_C) -c -o $@ $<)

$(GEN)/onnx.pb-c.c: $(GEN)/onnx.pb-c.h ;
$(GEN)/onnx.pb-c.h: onnx/onnx.proto
	@command -v protoc-c >/dev/null && $(PKG_CONFIG) --print-errors --exists $(PACKAGES) || \
		{ echo 'error: a library or tool is missing; `make deps` installs what is' >&2; exit 1; }
	@mkdir -p $(@D)
	$(call say,PROTOC,protoc-c --proto_path=onnx --c_out=$(GEN) onnx/onnx.proto)

$(OUT)/unit/%: $(OBJ)/test/unit/%.o $(PARTS) $(DNNL_LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$(LINK))

$(OUT)/conformance/run: $(CONFORMANCE_SRC:%.c=$(OBJ)/%.o) $(PARTS) $(DNNL_LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$(LINK))

$(OUT)/random/driver: $(OBJ)/test/random/driver.o $(PARTS) $(DNNL_LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$(LINK))

$(OUT)/mutants/run: $(patsubst %.c,$(OBJ)/%.o,$(wildcard test/mutants/*.c)) $(PARTS) $(DNNL_LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$(LINK))

TORTURE_FILES := $(OUT)/torture/run $(OUT)/torture/refuse.so
$(OUT)/torture/run: $(OBJ)/test/torture/run.o $(PARTS) $(DNNL_LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$(LINK))
$(OUT)/torture/refuse.so: test/torture/refuse.c
	@mkdir -p $(@D)
	$(call say,CC,$(CC) -shared -fPIC -O2 $(WARN) -std=gnu17 -fno-builtin -o $@ $< -ldl)

$(OUT)/fuzz/%: $(OBJ)/test/fuzz/%.o $(PARTS) $(DNNL_LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$(LINK) -fsanitize=fuzzer)

.SECONDARY:
-include $(shell [ ! -d $(OBJ) ] || find $(OBJ) -name '*.d')

# --- the demo: the text of demo/line.png, read by the PP-OCRv4 recognition model

MODEL := $(DEPS)/models/ch_PP-OCRv4_rec_infer.onnx

.PHONY: demo
demo: all $(MODEL)
	$(INFER) run $(MODEL) --input x=demo/line.png,order=bgr,resize=x48,scale=1/255,mean=0.5/0.5/0.5,std=0.5/0.5/0.5 \
		--decode ctc --labels meta:character
$(MODEL):
	@echo 'error: the demo'\''s model is not here; `make deps` fetches it' >&2; exit 1

# --- tests: test/run.sh runs suites and closes with one line, "N passed, N failed"

# The program that plants faults, for the corpus of check; instrumented builds do without.
FAULTS_INFER = $(if $(SANITIZE),,$(abspath $(if $(FAULTS),$(OUT),$(OUT)$(if $(filter $(BUILD),$(OUT)),/,-)faults)/bin/infer))
RUN_TESTS = HAVE_CUDA=$(HAVE_CUDA) FAULTS_INFER=$(FAULTS_INFER) CC='$(CC)' OUT=$(OUT) BUILD=$(BUILD) DEPS=$(DEPS) INFER=$(abspath $(INFER)) UNIT='$(UNIT)' MAKE='$(MAKE)' test/run.sh

.PHONY: test test-unit test-cli test-conformance test-check test-emulated lint check
test: all $(UNIT) $(CONFORMANCE)
	@+$(RUN_TESTS) unit check cli conformance
test-unit: $(UNIT)
	@+$(RUN_TESTS) unit
test-cli: all
	@+$(RUN_TESTS) cli
test-conformance: all $(CONFORMANCE)
	@+$(RUN_TESTS) conformance
test-check: all
	@+$(RUN_TESTS) check
# kernels of the GPU on the CPU
test-emulated: all
	@+$(RUN_TESTS) emulated
# A lint compiles nothing where a program is built, whatever the variables of that build were.
lint: $(if $(wildcard $(INFER)),,all)
	@+$(RUN_TESTS) lint
check: all $(OUT)/random/driver $(OUT)/mutants/run $(TORTURE_FILES)
	@+$(RUN_TESTS) lint headers gcc clang arm64 emulated sanitize mutants fuzz random torture

# Refuses each request for memory, one run for each; `check` takes a sample of them.
.PHONY: torture
torture: all $(TORTURE_FILES)
	@+TORTURE_MODE=-a TEST_TIMEOUT=86400 $(RUN_TESTS) torture

# Random graphs against ONNX Runtime and onnx.reference: make test-random SEED=7 GRAPHS=10000, or SECONDS=600
.PHONY: test-random
test-random: all $(OUT)/random/driver
	@+RANDOM_SEED=$(or $(SEED),1) RANDOM_GRAPHS=$(or $(GRAPHS),3000) RANDOM_SECONDS=$(SECONDS) TEST_TIMEOUT=86400 $(RUN_TESTS) random

# Faults planted into real models, and sound variants of them: make trust SEED=7 FAULTS_PLANTED=2000 SOUND=2000. Fetches the
# models; docs/trust.md tells what is measured. trust-real runs the models as they are beside ONNX Runtime.
.PHONY: trust trust-real trust-models
TRUST = PYTHONPATH=$(DEPS)/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 python3 test/trust
trust-models:
	@test/trust/fetch.sh $(BUILD)/trust/models
trust: all trust-models
	@$(TRUST)/trust.py --infer $(INFER) --models $(BUILD)/trust/models --out $(BUILD)/trust --seed $(or $(SEED),1) \
		--faults $(or $(FAULTS_PLANTED),2000) --sound $(or $(SOUND),2000)
trust-real: all trust-models
	@$(TRUST)/real.py $(INFER) $(BUILD)/trust/models

# Mutants on the plain build and under sanitizers, then each libFuzzer target; test/fuzz/run.sh prints counts: make fuzz HOURS=8
.PHONY: fuzz
fuzz: $(OUT)/mutants/run
	@+DEPS=$(DEPS) BUILD=$(BUILD) OUT=$(OUT) MAKE='$(MAKE)' CASES='$(CASES)' test/fuzz/run.sh $(or $(HOURS),1) $(SEED)

.PHONY: tests fuzzers
tests: all $(UNIT) $(CONFORMANCE) $(OUT)/random/driver $(OUT)/mutants/run $(OUT)/bench/ops $(OUT)/bench/gpu_models $(LIMIT)
fuzzers: $(FUZZ)

# On a machine with a GPU; test/gpu/run.sh tells what CASES, MODELS, SANITIZE and others name. test/gpu/ptx.sh runs the same by the
# PTX of the program.
.PHONY: test-gpu
test-gpu: tests
	@OUT=$(OUT) INFER=$(abspath $(INFER)) test/gpu/run.sh

# Each header compiles alone.
.PHONY: check-headers $(HDR:%=alone/%)
check-headers: $(HDR:%=alone/%)
$(HDR:%=alone/%): alone/%: $(GEN)/onnx.pb-c.h
	@echo 'extern int a_header_of_macros_is_no_empty_file;' | $(CC) $(WARN) $(FLAGS_C) -DSIMD_LEVEL=0 -fsyntax-only -include $* -x c -

# Compares speed and memory with ONNX Runtime (pip install onnxruntime): make bench MODELS='a.onnx b.onnx'
$(OUT)/bench/%: $(OBJ)/bench/%.o $(PARTS) $(DNNL_LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$(LINK))
$(OUT)/bench/limit.so: bench/limit.c
	@mkdir -p $(@D)
	$(call say,CC,$(CC) -shared -fPIC -O2 $(WARN) -std=gnu17 -o $@ $< -ldl)
.PHONY: bench bench-ops
# each operator on about a million elements: make bench-ops MATCH=Softmax
bench-ops: $(OUT)/bench/ops
	PYTHONPATH=$(DEPS)/python bench/ops.py --driver $(OUT)/bench/ops --match '$(MATCH)'
bench: $(OUT)/bench/latency
	bench/compare.py --latency $(OUT)/bench/latency $(MODELS)

# --- for 64-bit ARM: the program and the conformance runner, in build/aarch64-linux-gnu-gcc. It takes Debian's cross compiler
# (apt-get install gcc-aarch64-linux-gnu); the libraries are fetched once, into build/arm64-sysroot.

ARM64_SYSROOT := $(BUILD)/arm64-sysroot
.PHONY: arm64
arm64:
	@tools/arm64-sysroot.sh $(ARM64_SYSROOT)
	@+$(MAKE) --no-print-directory CC=aarch64-linux-gnu-gcc SYSROOT=$(ARM64_SYSROOT) CUDA=no all \
		$(BUILD)/aarch64-linux-gnu-gcc/conformance/run

# --- what is made from the tables of the program, and committed

GEN_DIR ?= .
.PHONY: gen
gen: all
	@mkdir -p $(GEN_DIR)/man/man1 $(GEN_DIR)/man/man7 $(GEN_DIR)/completions $(GEN_DIR)/configs
	$(INFER) __gen man $(GEN_DIR)/man
	$(INFER) __gen bash >$(GEN_DIR)/completions/infer.bash
	$(INFER) __gen zsh >$(GEN_DIR)/completions/_infer
	$(INFER) __gen fish >$(GEN_DIR)/completions/infer.fish
	$(INFER) __gen yaml >$(GEN_DIR)/configs/default.yaml

# --- install

PREFIX ?= /usr/local
bindir := $(DESTDIR)$(PREFIX)/bin
libdir := $(DESTDIR)$(PREFIX)/lib/infer
datadir := $(DESTDIR)$(PREFIX)/share

# FILE@FOLDER of everything that is installed as data
DATA := $(foreach f,$(sort $(wildcard man/man1/*.1)),$(f)@$(datadir)/man/man1) \
	$(foreach f,$(sort $(wildcard man/man7/*.7)),$(f)@$(datadir)/man/man7) \
	$(foreach f,$(sort $(wildcard configs/*.yaml)),$(f)@$(datadir)/infer/configs) \
	completions/_infer@$(datadir)/zsh/site-functions \
	completions/infer.fish@$(datadir)/fish/vendor_completions.d \
	$(foreach f,$(sort $(wildcard docs/custom-operators/*)),$(f)@$(datadir)/doc/infer/custom-operators) \
	src/custom/infer/op.h@$(DESTDIR)$(PREFIX)/include/infer \
	LICENSE@$(datadir)/doc/infer README.md@$(datadir)/doc/infer
DATA += $(foreach f,$(CUDA_LIBS),$(f)@$(libdir)) \
	$(foreach f,$(if $(CUDA_LIBS),$(notdir $(wildcard $(DEPS)/cuda/doc/*))),$(DEPS)/cuda/doc/$(f)/License.txt@$(datadir)/doc/infer/$(f))
ifdef DNNL_LIB
DATA += $(DNNL_LIB)@$(libdir) $(foreach f,LICENSE THIRD-PARTY-PROGRAMS,$(DNNL)/doc/$(f)@$(datadir)/doc/infer/onednn)
endif
file_of = $(firstword $(subst @, ,$(1)))
folder_of = $(lastword $(subst @, ,$(1)))
BASH_COMPLETION := $(datadir)/bash-completion/completions/infer

.PHONY: install uninstall
install: all
	install -D -m 755 $(INFER) $(bindir)/infer
	install -D -m 644 completions/infer.bash $(BASH_COMPLETION)
	$(foreach d,$(DATA),install -D -m 644 $(call file_of,$(d)) $(call folder_of,$(d))/$(notdir $(call file_of,$(d))) &&) :
uninstall:
	rm -f $(bindir)/infer $(BASH_COMPLETION) \
		$(foreach d,$(DATA),$(call folder_of,$(d))/$(notdir $(call file_of,$(d))))
	for d in $(libdir) $(datadir)/infer/configs $(datadir)/infer $(datadir)/doc/infer/*/ $(datadir)/doc/infer; do \
		[ ! -d $$d ] || rmdir --ignore-fail-on-non-empty $$d; done

# --- packages, in build/packages: tools/package.sh tells what is in them

.PHONY: dist deb release
# Of several, one runs after the other: they share compiled kernels and SHA256SUMS.
release: | $(filter dist deb,$(MAKECMDGOALS))
deb: | $(filter dist,$(MAKECMDGOALS))
dist deb release:
	@+MAKE='$(MAKE)' DEPS='$(abspath $(DEPS))' HAVE_NVCC='$(if $(filter 1,$(HAVE_CUDA)),yes)' tools/package.sh $@

# --- for the editor and the eye

C_FILES := $(SRC) $(HDR) $(UNIT_SRC) $(FUZZ_SRC) $(CONFORMANCE_SRC) $(sort $(wildcard test/random/*.c bench/*.c test/*/*.h))

.PHONY: format tidy
# Writes only the files that change: clang-format -i gives every file a new time, and all kernels would be compiled again.
format:
	@for f in $(C_FILES); do clang-format "$$f" | cmp -s - "$$f" || clang-format -i "$$f" || exit; done
tidy: compile_commands.json
	clang-tidy -p . --quiet $(filter-out $(SIMD_SRC),$(SRC))

compile_commands.json: $(OUT)/flags $(SRC)
	@{ sep='['; for f in $(filter-out $(SIMD_SRC),$(SRC)) $(UNIT_SRC); do \
		printf '%s\n{"directory": "%s", "file": "%s", "command": "%s"}' "$$sep" '$(CURDIR)' "$$f" \
			"$(CC) $(WARN) $(FLAGS_C) -c $$f"; sep=,; done; printf '\n]\n'; } >$@

.PHONY: clean distclean help
# What `make deps` fetched stays.
clean:
	@[ ! -d $(BUILD) ] || find $(BUILD) -mindepth 1 -maxdepth 1 ! -path '$(DEPS)' -exec rm -rf {} +
	rm -f compile_commands.json
distclean: clean
	rm -rf $(BUILD) $(DEPS)

help:
	@echo 'all               $(INFER)'
	@echo 'deps, deps-dev    install and fetch what the build needs; what make check needs'
	@echo 'deps-cuda         fetch the compiler and libraries of CUDA that the machine lacks, for the GPU backend'
	@echo 'demo              read the text of a picture'
	@echo 'test              unit tests, command line tests, conformance; test-unit, test-cli, test-conformance'
	@echo 'test-gpu          what wants a GPU: units, faults, conformance; MODELS= SANITIZE=1 for more'
	@echo 'check             lints, gcc and clang with DEVELOPER=1, the tests under ASan and UBSan, brief fuzzing'
	@echo 'lint, check-headers, tidy, format, compile_commands.json'
	@echo 'gen               write man/, completions/ and configs/default.yaml from the option table'
	@echo 'install, uninstall   PREFIX=$(PREFIX) DESTDIR='
	@echo 'dist, deb, release   packages in build/packages: the sources, Debian packages, a tarball for any distribution'
	@echo 'arm64             cross-compile the program for 64-bit ARM with aarch64-linux-gnu-gcc'
	@echo 'test-random       random graphs against ONNX Runtime; SEED= GRAPHS= SECONDS='
	@echo 'torture           refuse each request for memory: no crash, the status of the table, JSON that parses'
	@echo 'trust, trust-real error rates of infer check on planted faults and sound models; SEED='
	@echo 'fuzz              mutants and libFuzzer for HOURS=N; SEED= CASES=DIR'
	@echo 'bench, bench-ops  compare the speed of models, of single operators'
	@echo 'clean, distclean  remove what was built; also what make deps fetched'

endif

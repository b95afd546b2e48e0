#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The stand-in for the driver with refuse.c before it, as FOLDER/libcuda.so.1.
set -e
at=$1
here=$(dirname "$0")
${CC:-gcc} -c -fPIC -w -o "$at/cuda.o" "$here/cuda.c"
nm --defined-only "$at/cuda.o" | sed -n 's/^[0-9a-f]* T \(cu[A-Z].*\)/\1/p' >"$at/functions"
sed 's/.*/& real_&/' "$at/functions" >"$at/renamed"
sed 's/.*/F(&)/' "$at/functions" >"$at/functions.def"
objcopy --redefine-syms="$at/renamed" "$at/cuda.o"
${CC:-gcc} -shared -fPIC -w -I"$at" -o "$at/libcuda.so.1" "$here/refuse.c" "$at/cuda.o"

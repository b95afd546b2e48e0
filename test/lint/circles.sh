#!/usr/bin/env bash
# No circle among folders, by the symbols that the objects of a build take from one another: whoever reads a folder can
# understand it with the folders below it alone. Includes may look clean while a declaration by hand is not, so this lint
# reads what was linked. Tables that only list what other folders define are left out: their very purpose is to name all.
set -u
cd "$(dirname "$0")/../.." || exit 1
objects=${OUT:-build}/obj
[ -d "$objects/src" ] || {
	echo "no objects in $objects: build first"
	exit 1
}
# kernels of each backend, operators, rewrite rules, subcommands
tables='gpu/backend.c src/cpu/cpu.c src/ops/registry.c src/opt/rewrite.c cmd/options/commands.c'

find "$objects/cmd" "$objects/src" "$objects/onnx" "$objects/gpu" -name '*.o' -print0 | xargs -0 nm -A |
	objects=$objects/ tables=$tables awk '
	function source(path) {
		path = substr(path, length(ENVIRON["objects"]) + 1)
		sub(/(\.v[0-9])?\.o$/, ".c", path)
		return path
	}
	function folder(path) {
		sub(/\/[^\/]*$/, "", path)
		return path
	}
	BEGIN {
		n = split(ENVIRON["tables"], list, " ")
		for (i = 1; i <= n; i++) table[list[i]] = 1
	}
	{
		file = $0
		sub(/:.*/, "", file)
		file = source(file)
		if (!(file in stale)) {
			# an object whose source was renamed or removed says nothing of the tree
			stale[file] = (getline line < file) < 0
			close(file)
		}
		if (stale[file]) next
		if ($(NF - 1) ~ /^[TDRBCVW]$/) home[$NF] = file
		else if ($(NF - 1) == "U" && !(file in table)) wants[file, $NF] = 1
	}
	END {
		for (w in wants) {
			split(w, p, SUBSEP)
			if (!(p[2] in home)) continue
			a = folder(p[1]); b = folder(home[p[2]])
			if (a == b) continue
			edge[a, b] = p[1] " takes " p[2] " from " home[p[2]]
			left[a] = left[b] = 1
		}
		# Remove folders that take nothing from those that are left until none can be removed: circles remain.
		do {
			removed = 0
			for (f in left) {
				below = above = 0
				for (e in edge) {
					split(e, p, SUBSEP)
					if (!(p[1] in left) || !(p[2] in left)) continue
					below += p[1] == f; above += p[2] == f
				}
				if (!below || !above) { delete left[f]; removed = 1; break }
			}
		} while (removed)
		for (e in edge) {
			split(e, p, SUBSEP)
			if ((p[1] in left) && (p[2] in left)) { print "circle: " edge[e]; bad = 1 }
		}
		exit bad
	}'

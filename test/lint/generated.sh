#!/usr/bin/env bash
# The manual pages and the completion scripts are well formed, as far as the tools for that are here.
set -u
shopt -s nullglob
cd "$(dirname "$0")/../.." || exit 1
bad=0
for page in man/man[17]/*; do
	! command -v mandoc >/dev/null || mandoc -T lint -W warning "$page" || bad=1
done
bash -n completions/infer.bash || bad=1
! command -v zsh >/dev/null || zsh -n completions/_infer || bad=1
! command -v fish >/dev/null || fish --no-execute completions/infer.fish || bad=1
exit $bad

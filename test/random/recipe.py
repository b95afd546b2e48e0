# SPDX-License-Identifier: Apache-2.0
"""The table of recipes: (domain, operator) -> function of a Context to a dict of operands and attributes.

A recipe names inputs and attributes alike; what the operator's version does not have is left out. Names that
begin with an underscore are notes: _nout (number of outputs), _ref / _ort (False: not an oracle for this one),
_random (only type and shape are determined), _tol (tolerance, times), _atol, _quant (steps that may differ),
_reuse (False: outputs are not used further), _rows (so many rows of outputs of rank 4 are determined).
"""

RECIPES = {}


def recipe(*names, domain="ai.onnx"):
    def wrap(f):
        for n in names:
            RECIPES[(domain, n)] = f
        return f
    return wrap

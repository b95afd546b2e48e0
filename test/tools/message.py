# SPDX-License-Identifier: Apache-2.0
"""A protobuf message by hand, for models that no exporter writes: fields one after the other, each below 16,384 bytes."""


def part(number, body):
    """Field `number` of text, bytes or a message."""
    body = body.encode() if isinstance(body, str) else body
    size = bytes([len(body)]) if len(body) < 128 else bytes([len(body) & 127 | 128, len(body) >> 7])
    return bytes([number << 3 | 2]) + size + body


def num(number, v):
    """Field `number` of an integer below 128."""
    return bytes([number << 3, v])

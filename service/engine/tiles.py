"""The innermost loop of products with packed weights, in vectors of the processor.

A *tile* is so many rows by so many outputs. Their sums over one group of inputs stay in registers
while the codes go by: each code is loaded and made a number once for all rows of the tile. This is
written out as LLVM's vector operations, because a compiler that finds vectors by itself keeps the
sums in memory and does three times the work.

Every sum is made of fused multiply-adds in the order in which the codes lie, whatever the tile: a
row's numbers are the same bits in any company.

    for each pair of inputs (j, j + 16), whose two codes share a byte:
        sum += x[j] * code          sum += x[j + 16] * other code
    out += scale * sum              out += sum of the inputs * lowest
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

from service.engine.packed import GROUP, LANES

_Floats = npt.NDArray[np.float32]
_Bytes = npt.NDArray[Any]

_VECTOR = 16  # lanes of one operation: LLVM makes of them what the processor has
_FLOAT = ir.FloatType()
_FLOATS = ir.VectorType(_FLOAT, _VECTOR)
_INTS = ir.VectorType(ir.IntType(32), _VECTOR)


class _Tile:
    """Writes the code of one tile."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.builder = builder
        self._context = context
        self._arrays = [
            arrayobj.make_array(kind)(context, builder, value)
            if isinstance(kind, types.Array)
            else value
            for kind, value in zip(signature.args, arguments, strict=True)
        ]
        self._fma = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(_FLOATS, [_FLOATS] * 3),
            f"llvm.fma.v{_VECTOR}f32",
        )

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return self.builder.call(self._fma, [a, b, c])

    def index(self, value: int) -> Any:
        return ir.Constant(ir.IntType(64), value)

    def at(self, argument: int, *offsets: Any) -> Any:
        """A place in an array, so many elements from its begin."""
        place = self._arrays[argument].data
        for offset in offsets:
            place = self.builder.gep(place, [offset])
        return place

    def width(self, argument: int) -> Any:
        """Elements of a row of a matrix."""
        return cgutils.unpack_tuple(self.builder, self._arrays[argument].shape)[-1]

    def vector(self, place: Any, kind: Any) -> Any:
        """Loads a vector that may lie anywhere."""
        place = self.builder.bitcast(place, kind.as_pointer())
        return self.builder.load(place, align=1)

    def store(self, value: Any, place: Any) -> None:
        self.builder.store(value, self.builder.bitcast(place, value.type.as_pointer()), align=4)

    def everywhere(self, value: Any) -> Any:
        """One number in every lane."""
        undefined = ir.Constant(_FLOATS, ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(_INTS, [0] * _VECTOR)
        return self.builder.shuffle_vector(first, undefined, zeros)


def _numbers4(tile: _Tile, place: Any) -> tuple[Any, Any]:
    """Both halves of the bytes."""
    builder = tile.builder
    loaded = tile.vector(place, ir.VectorType(ir.IntType(8), _VECTOR))
    codes = builder.zext(loaded, _INTS)
    low = builder.and_(codes, ir.Constant(_INTS, [15] * _VECTOR))
    high = builder.lshr(codes, ir.Constant(_INTS, [4] * _VECTOR))
    return builder.sitofp(low, _FLOATS), builder.sitofp(high, _FLOATS)


def _numbers8(tile: _Tile, place: Any) -> tuple[Any, Any]:
    """These bytes, and those of the input 16 later."""
    builder = tile.builder
    byte = ir.VectorType(ir.IntType(8), _VECTOR)
    later = builder.gep(place, [tile.index(GROUP // 2 * LANES)])
    low, high = (builder.sext(tile.vector(p, byte), _INTS) for p in (place, later))
    return builder.sitofp(low, _FLOATS), builder.sitofp(high, _FLOATS)


def _generate(
    context: Any, builder: Any, signature: Any, arguments: Any, rows: int, width: int
) -> None:
    """The code of a tile; the arguments are those of ``product`` with a place before ``out``."""
    bits = 4 if signature.args[2].dtype == types.uint8 else 8
    tile = _Tile(context, builder, signature, arguments)
    row, group, lane = arguments[5:8]
    x_width, sums_width = tile.width(0), tile.width(1)
    inputs = [
        tile.at(0, builder.mul(builder.add(row, tile.index(r)), x_width),
                builder.mul(group, tile.index(GROUP)))
        for r in range(rows)
    ]  # fmt: skip
    stored = GROUP // 2 if bits == 4 else GROUP
    codes = tile.at(2, builder.mul(group, tile.index(stored * LANES)), lane)
    parts = range(0, width, _VECTOR)
    zero = ir.Constant(_FLOATS, [0.0] * _VECTOR)
    totals = {(r, part): zero for r in range(rows) for part in parts}
    numbers = _numbers4 if bits == 4 else _numbers8
    for j in range(GROUP // 2):
        near = [tile.everywhere(builder.load(builder.gep(p, [tile.index(j)]))) for p in inputs]
        far = [
            tile.everywhere(builder.load(builder.gep(p, [tile.index(j + GROUP // 2)])))
            for p in inputs
        ]
        for part in parts:
            place = builder.gep(codes, [tile.index(j * LANES + part)])
            low, high = numbers(tile, place)
            for r in range(rows):
                totals[r, part] = tile.fma(near[r], low, totals[r, part])
            for r in range(rows):
                totals[r, part] = tile.fma(far[r], high, totals[r, part])
    scale_at = builder.add(builder.mul(group, tile.index(LANES)), lane)
    for part in parts:
        scales = tile.vector(tile.at(3, scale_at, tile.index(part)), _FLOATS)
        lows = tile.vector(tile.at(4, scale_at, tile.index(part)), _FLOATS) if bits == 4 else None
        for r in range(rows):
            this = builder.add(row, tile.index(r))
            place = tile.at(8, builder.mul(this, tile.index(LANES)), lane, tile.index(part))
            value = tile.fma(scales, totals[r, part], tile.vector(place, _FLOATS))
            if lows is not None:
                total = builder.load(tile.at(1, builder.mul(this, sums_width), group))
                value = tile.fma(tile.everywhere(total), lows, value)
            tile.store(value, place)


def _interpreted(
    rows: int, width: int, x: _Floats, sums: _Floats, codes: _Bytes, scales: _Floats,
    lows: _Floats, row: int, group: int, lane: int, out: _Floats,
) -> None:  # fmt: skip
    """What the code of a tile does."""
    lanes = slice(lane, lane + width)
    stored = codes[group, :, lanes]
    pairs = (stored & 15, stored >> 4) if stored.dtype == np.uint8 else np.split(stored, 2)
    near, far = (part.astype(np.float32) for part in pairs)
    for r in range(row, row + rows):
        total = np.zeros(width, dtype=np.float32)
        values = x[r, group * GROUP : (group + 1) * GROUP]
        for j in range(GROUP // 2):
            total += values[j] * near[j]
            total += values[j + GROUP // 2] * far[j]
        out[r, lanes] += scales[group, lanes] * total
        if len(lows):
            out[r, lanes] += sums[r, group] * lows[group, lanes]


def _tile(rows: int, width: int) -> Any:
    """Of ``rows`` rows from ``row`` on and ``width`` outputs from ``lane`` on."""
    if numba.config.DISABLE_JIT:  # for coverage
        return functools.partial(_interpreted, rows, width)

    @intrinsic
    def tile(
        _typing: Any, x: Any, sums: Any, codes: Any, scales: Any, lows: Any, row: Any, group: Any,
        lane: Any, out: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            _generate(context, builder, signature, arguments, rows, width)
            return context.get_dummy_value()

        return types.void(x, sums, codes, scales, lows, row, group, lane, out), generate

    return tile


# The sums of a tile are eight or twelve of the registers of a processor with sixteen for eight
# numbers each; the rest are for codes and inputs.
_MOST_ROWS = 6
_tile_1: Any = _tile(1, 64)
_tile_2: Any = _tile(2, 32)
_tile_3: Any = _tile(3, 16)
_tile_4: Any = _tile(4, 16)
_tile_5: Any = _tile(5, 16)
_tile_6: Any = _tile(6, 16)


@numba.njit(nogil=True, cache=True)
def product(
    x: _Floats, sums: _Floats, codes: _Bytes, scales: _Floats, lows: _Floats, out: _Floats
) -> None:
    """``out`` [rows, LANES]: ``x`` [rows, inputs] times one block of weights, see ``Packed``.

    ``sums`` [rows, groups] as ``group_sums`` makes them; not read for weights of 8 bits.
    """
    rows = x.shape[0]
    out[:] = 0
    for group in range(codes.shape[0]):
        row = 0
        while row < rows:
            left = rows - row
            size = -(-left // -(-left // _MOST_ROWS))  # as even as can be
            _of_one_size(size, x, sums, codes, scales, lows, row, group, out)
            row += size


@numba.njit(nogil=True, cache=True)
def _of_one_size(
    size: int, x: _Floats, sums: _Floats, codes: _Bytes, scales: _Floats, lows: _Floats, row: int,
    group: int, out: _Floats,
) -> None:  # fmt: skip
    if size == 1:
        _tile_1(x, sums, codes, scales, lows, row, group, 0, out)
        return
    if size == 2:
        for lane in range(0, LANES, 32):
            _tile_2(x, sums, codes, scales, lows, row, group, lane, out)
        return
    for lane in range(0, LANES, 16):
        if size == 3:
            _tile_3(x, sums, codes, scales, lows, row, group, lane, out)
        elif size == 4:
            _tile_4(x, sums, codes, scales, lows, row, group, lane, out)
        elif size == 5:
            _tile_5(x, sums, codes, scales, lows, row, group, lane, out)
        else:
            _tile_6(x, sums, codes, scales, lows, row, group, lane, out)

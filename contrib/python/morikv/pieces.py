# SPDX-License-Identifier: BSD-3-Clause
"""Offsets and lengths in bytes for the library, without a loop in Python.

Numbers are a NumPy array of integers, any other buffer of integers, an iterable, or one
number that stands for all. NumPy is used where the process has loaded it, else not needed.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Union

from ._library import ffi

if TYPE_CHECKING:
    from typing_extensions import Buffer

_PIECES = ffi.typeof("mkv_op_piece_t[]")

#: Bytes: offsets, lengths, or numbers of regions.
Numbers = Union[int, Iterable[int], "Buffer"]


def _refuse(name: str, why: object) -> ValueError:
    return ValueError(f"{name}: {why}; expected integers of 0 to 2^64 - 1")


def _of_buffer(view: memoryview, values: Any, name: str) -> memoryview:
    if view.format not in ("b", "B", "h", "H", "i", "I", "l", "L", "q", "Q"):
        raise _refuse(name, f"a buffer of format '{view.format}'")
    if view.itemsize == 8 and view.c_contiguous and view.nbytes > 0:
        return view.cast("B").cast("Q")
    if hasattr(values, "astype") and view.nbytes > 0:
        return memoryview(values.astype("int64", order="C")).cast("B").cast("Q")
    # tobytes() is in C order, whatever the strides are
    return memoryview(array("Q", array(view.format, view.tobytes())))


def numbers(values: Numbers, name: str) -> memoryview:
    """64-bit unsigned numbers; one number gives a single one.

    :param name: name of the numbers, for errors.
    :raises ValueError: they are no integers. A negative one of a signed buffer reads as
        one near 2^64, which is outside of every region.
    """
    # memoryview() decides whether it is a buffer; until then the type is open
    given: Any = (values,) if isinstance(values, int) else values
    try:
        view = memoryview(given)
    except TypeError:
        try:
            return memoryview(array("Q", given))
        except (OverflowError, TypeError) as error:
            raise _refuse(name, error) from None
    try:
        return _of_buffer(view, given, name)
    except OverflowError as error:
        raise _refuse(name, error) from None


def columns(named: dict[str, Numbers]) -> tuple[list[memoryview], int]:
    """Return the numbers of several kinds, and their count; single numbers apply to all.

    :raises ValueError: The counts differ.
    """
    found = [numbers(values, name) for name, values in named.items()]
    counts = {len(view) for view, values in zip(found, named.values()) if not _is_one(values)}
    if len(counts) > 1:
        lengths = ", ".join(f"{len(view)} {name}" for view, name in zip(found, named))
        raise ValueError(f"{lengths}; expected equal numbers")
    return found, counts.pop() if counts else 1


def _is_one(values: Numbers) -> bool:
    return isinstance(values, int) or getattr(values, "ndim", 1) == 0


#: Beyond so many pieces NumPy is quicker than Python.
_FEW = 16


def _few(values: Any) -> list[int] | None:
    """Up to _FEW numbers of a list or of an array of integers; None: anything else."""
    if type(values) is not list:
        if getattr(values, "ndim", 0) != 1 or len(values) > _FEW or values.dtype.kind not in "iu":
            return None
        values = values.tolist()
    return values if 0 < len(values) <= _FEW else None


def _short_table(*columns: Numbers) -> array[int] | None:
    """:func:`_table` of few pieces, or of one that is given by numbers; None: they are not
    such, or are not valid."""
    try:
        if type(columns[1]) is int:
            return array("Q", columns)  # type: ignore[arg-type]
        region: Any = columns[0]
        lists: list[Any] = [_few(values) for values in columns[1:]]
        if None in lists or len({*map(len, lists)}) != 1:
            return None
        return array("Q", chain.from_iterable(zip(repeat(region), *lists)))
    except (AttributeError, OverflowError, TypeError):
        return None


def _by_numpy(numpy: Any, found: list[memoryview], count: int) -> Any:
    words = numpy.empty((count, len(found)), numpy.uint64)
    for i, view in enumerate(found):
        words[:, i] = view
    return words.reshape(-1)


class Pieces:
    """The pieces of one operation, copied from the caller's numbers when this is made.

    :param local: number of the region here, one for all pieces or one for each.
    :param remote: the peer's, in the same way.
    :param local_offsets: bytes from the region's base, as are ``remote_offsets``.
    :param lengths: bytes.
    :raises ValueError: counts differ, or a value is not an integer of 0 to 2^64 - 1.
    """

    __slots__ = ("pointer", "count", "_words")

    def __init__(
        self,
        local: Numbers,
        remote: Numbers,
        local_offsets: Numbers,
        remote_offsets: Numbers,
        lengths: Numbers,
    ) -> None:
        regions = _regions(local, remote)
        words = None
        if isinstance(regions, int):
            words = _short_table(regions, local_offsets, remote_offsets, lengths)
        if words is not None:
            self.count = len(words) // 4
        else:
            given = {"local offsets": local_offsets, "remote offsets": remote_offsets}
            given["lengths"] = lengths
            given["regions"] = regions
            found, self.count = columns(given)
            words = _table([found[3], *found[:3]], self.count)
        #: Array of mkv_op_piece_t; NULL when it is empty.
        self.pointer = ffi.from_buffer(_PIECES, words) if self.count > 0 else ffi.NULL
        self._words = words

    def size(self) -> int:
        """Sum of the lengths, in bytes."""
        lengths = self._words[3::4]
        return int(lengths.sum()) if hasattr(lengths, "sum") else sum(lengths)

    def beyond(self, local_size: int, remote_size: int) -> str:
        """:return: error of the first piece that leaves its region or is empty; "": none. The
        library reports the same when the pieces are posted."""
        for i in range(self.count):
            piece = self.pointer[i]
            length = int(piece.length)
            if length == 0:
                return f"piece {i}: length 0; expected at least 1"
            for where, offset, size in (
                ("local", int(piece.local_offset), local_size),
                ("remote", int(piece.remote_offset), remote_size),
            ):
                if offset + length > size:
                    return (
                        f"piece {i}: {where} offset {offset} length {length}; expected an end "
                        f"within the region's {size} bytes"
                    )
        return ""


def _table(found: list[memoryview], count: int) -> Any:
    """Row after row: one number of each of the columns."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        return _by_numpy(numpy, found, count)
    every = [view if len(view) == count else repeat(view[0], count) for view in found]
    return array("Q", chain.from_iterable(zip(*every)))


def _regions(local: Numbers, remote: Numbers) -> Numbers:
    """Pack the numbers of the local and the remote region of each piece into 64 bits."""
    if isinstance(local, int) and isinstance(remote, int):
        return _word(local, remote)
    (here, there), count = columns({"local regions": local, "remote regions": remote})
    both = (view if len(view) == count else repeat(view[0], count) for view in (here, there))
    return array("Q", map(_word, *both))


def _word(local: int, remote: int) -> int:
    if not (0 <= local < 1 << 32 and 0 <= remote < 1 << 32):
        raise _refuse("regions", f"{local} here and {remote} there")
    return local | remote << 32 if sys.byteorder == "little" else local << 32 | remote

"""Reads a receivables file: one line an invoice, with when it was due and when it was settled."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from io import StringIO
from pathlib import Path

__all__ = ["Receivable", "ReceivablesError", "read_receivables"]

COLUMNS = (
    "invoiceNumber",
    "customerID",
    "InvoiceDate",
    "DueDate",
    "InvoiceAmount",
    "Disputed",
    "SettledDate",
)
"""Needed, in any order; others are ignored. The names are those of the public sample by IBM."""

YEARS = range(1900, 2101)
"""A year beyond is a slip of the pen, and each day between two dates costs a tick."""

_LONGEST_TEXT = 100
_DATE = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})")
_AMOUNT = re.compile(r"[0-9]{1,10}(\.[0-9]{1,2})?")  # what the column of an invoice holds


@dataclass(frozen=True, slots=True)
class Receivable:
    """One invoice of the file. Its dates are whole days; ``amount`` has no currency."""

    number: str
    customer: str
    invoiced_on: date
    due_on: date
    amount: Decimal
    disputed: bool
    settled_on: date


class ReceivablesError(ValueError):
    """The file can't be read; the message names it, and the line and column where there is one."""


def read_receivables(path: Path) -> list[Receivable]:
    """Read and check the whole file at ``path``, UTF-8 with any line ends.

    Returns the invoices in the order of the file, at least one. Raises ``ReceivablesError`` at the
    first fault: no such file, a missing column, a bad date or amount, a number used twice.
    """
    records = _records(path)
    line, header = next(records, (1, []))
    _check_header(path, line, header)
    found: list[Receivable] = []
    lines: dict[str, int] = {}
    for line, values in records:
        receivable = _Row(path, line, header, values).receivable()
        number = receivable.number
        if number in lines:
            raise _error(path, line, "invoiceNumber", f"{number!r} is on line {lines[number]} too")
        lines[number] = line
        found.append(receivable)
    if not found:
        raise _error(path, line + 1, COLUMNS[0], "there is no invoice below the header")
    return found


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield each record with the line it begins on."""
    reader = csv.reader(StringIO(_text(path), newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            values = next(reader, None)
        except csv.Error as error:
            raise ReceivablesError(f"{path}, line {line}: {error}") from error
        if values is None:
            return
        if values:  # not an empty line
            yield line, values


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ReceivablesError(f"{path}: {error.strerror}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ReceivablesError(f"{path}, line {line}: this is not UTF-8") from error


def _check_header(path: Path, line: int, header: list[str]) -> None:
    for column in COLUMNS:
        if header.count(column) != 1:
            there = ", ".join(header) or "nothing"
            how_often = "is missing from" if column not in header else "is twice in"
            raise _error(path, line, column, f"it {how_often} the header, which holds: {there}")


def _error(path: Path, line: int, column: str, message: str) -> ReceivablesError:
    return ReceivablesError(f"{path}, line {line}, column {column}: {message}")


class _Row:
    """One record of the file; every fault is raised with its line and column."""

    def __init__(self, path: Path, line: int, header: list[str], values: list[str]) -> None:
        self.path = path
        self.line = line
        if len(values) != len(header):
            column = header[min(len(values), len(header) - 1)]  # the first that is missing
            raise self._bad(column, f"{len(values)} values, but the header has {len(header)}")
        self.values = dict(zip(header, values, strict=True))

    def receivable(self) -> Receivable:
        return Receivable(
            number=self._text("invoiceNumber"),
            customer=self._text("customerID"),
            invoiced_on=self._date("InvoiceDate"),
            due_on=self._date("DueDate"),
            amount=self._amount("InvoiceAmount"),
            disputed=self._yes_or_no("Disputed"),
            settled_on=self._date("SettledDate"),
        )

    def _text(self, column: str) -> str:
        value = self.values[column].strip()
        if not value or len(value) > _LONGEST_TEXT or "\0" in value:
            raise self._bad(column, f"{value!r} is no text of 1 to {_LONGEST_TEXT} characters")
        return value

    def _date(self, column: str) -> date:
        value = self.values[column].strip()
        match = _DATE.fullmatch(value)
        if match is None:
            raise self._bad(column, f"{value!r} is no date like 12/31/2013 (month/day/year)")
        month, day, year = (int(part) for part in match.groups())
        if year not in YEARS:
            raise self._bad(column, f"{value!r} is not from {YEARS[0]} to {YEARS[-1]}")
        try:
            return date(year, month, day)
        except ValueError as error:
            raise self._bad(column, f"{value!r} (month/day/year): {error}") from error

    def _amount(self, column: str) -> Decimal:
        value = self.values[column].strip()
        if not _AMOUNT.fullmatch(value):
            raise self._bad(column, f"{value!r} is no amount like 55.94")
        return Decimal(value)

    def _yes_or_no(self, column: str) -> bool:
        value = self.values[column].strip()
        if value not in ("Yes", "No"):
            raise self._bad(column, f"{value!r} is neither Yes nor No")
        return value == "Yes"

    def _bad(self, column: str, message: str) -> ReceivablesError:
        return _error(self.path, self.line, column, message)

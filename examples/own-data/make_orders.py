"""Writes orders.csv: 200,000 orders as old programs wrote them, with every oddity that a CSV can have.

Names with quotes, commas, line breaks and letters of many alphabets; times in three forms; amounts that are empty, NaN
or have a comma; a counter that ran over; every tenth order is a correction of an earlier one. The same file each time.
"""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROWS = 200_000
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
CUSTOMERS = ["Zoë", "北京 7", 'Miller, "Al"', "Łódź", "two\nlines", "ship 🚢"]


def row(number: int) -> list[object]:
    at = BEGIN + timedelta(seconds=number)
    # An odd number is no multiple of four, and what it corrects is even: no correction of a correction.
    order = number // 4 * 4 if number % 10 == 9 else number
    found = [order, at.strftime("%Y-%m-%dT%H:%M:%SZ"), CUSTOMERS[number % 6], f"{number % 1000}.25", number]
    match number % 1000:
        case 1:
            found[1] = at.strftime("%d.%m.%Y %H:%M")
        case 2:
            found[1] = int(at.timestamp())
        case 3:
            found[3] = ""
        case 4:
            found[3] = "NaN"
        case 5:
            found[4] = 2**64 + number
        case 6:
            found[3] = f"{number % 1000},25"
    return found


def main(path: Path = Path("orders.csv")) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["order", "at", "customer", "amount", "meter"])
        out.writerows(map(row, range(ROWS)))
    print(f"{path}: {ROWS:,} rows")


if __name__ == "__main__":
    main()

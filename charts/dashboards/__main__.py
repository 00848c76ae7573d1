"""Writes them: .venv/bin/python -m charts.dashboards"""

from charts.dashboards.files import write

write()

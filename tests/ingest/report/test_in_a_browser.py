"""The report in a real browser: accessible, in both schemes, wide and narrow, with nothing asked of the network."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from playwright.async_api import Browser
from tests.support.browser import chromium, violations, watched
from tests.support.report import example

from fairlead_ingest.report import page

pytestmark = [pytest.mark.verify, pytest.mark.process]
NOW = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)

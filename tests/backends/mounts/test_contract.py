"""Mounted environments hold the contract of every backend."""

from pathlib import Path

import pytest

from backends.contract import Make
from backends.mounts import opened
from backends.mounts.mount import read
from backends.testing import BackendContract, Sample, call
from tests.backends.mounts.making import mount

AIRLINE = Path(__file__).parents[1] / "airline" / "mount.toml"

KETTLE = """
import time
water = {"litres": 0.0}
def fill(litres: float): water["litres"] += litres; return water
def look(): return water
def boil(seconds: float): time.sleep(seconds); return "boiled"
def shown(): return water
"""

LAMP = """
class Lamp:
    def __init__(self): self.on = False
    def switch(self, on: bool):
        self.on = on
        return on
    def look(self): return self.on
"""


class TestClassesWithStaticInvoke(BackendContract):
    @pytest.fixture
    def make(self) -> Make:
        return lambda: opened(read(AIRLINE))

    @pytest.fixture
    def sample(self) -> Sample:
        return Sample(
            read=call("get_user_details", user_id="user_0001"),
            write=call("update_bags", reservation_id="R0001A", bags=3),
            wrong=call("update_bags", reservation_id="R0001A", bags="three"),
        )


class TestFunctionsInAFork(BackendContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        tools = ["shop:fill", "shop:look", "shop:boil"]
        made = mount(tmp_path, KETTLE, tools=tools, state={"snapshot": "shop:shown"}, reads=["look", "boil"])
        return lambda: opened(made)

    @pytest.fixture
    def sample(self) -> Sample:
        return Sample(
            read=call("look"),
            write=call("fill", litres=1.5),
            wrong=call("fill", litres="much"),
            slow=call("boil", seconds=60),
            slow_s=1.0,
        )


class TestMethodsOfObjects(BackendContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        made = mount(tmp_path, LAMP, objects=["shop:Lamp"])
        return lambda: opened(made)

    @pytest.fixture
    def sample(self) -> Sample:
        return Sample(read=call("look"), write=call("switch", on=True), wrong=call("switch", on="yes"))

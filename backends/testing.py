"""The contract of a backend: what every implementation must hold, as tests that pytest can run.

    class TestMyBackend(BackendContract):
        @pytest.fixture
        def make(self) -> Make:
            return lambda: MyBackend(...)

        @pytest.fixture
        def sample(self) -> Sample:
            return Sample(read=call("list_orders"), write=call("cancel_order", id="o1"))

What a manifest does not promise is not asked for. Nothing here is imported by the library itself.
"""

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from backends.contract import Backend, Make, Manifest, ResetSpec
from backends.schemas import Schemas, named
from core.errors import UsageError
from core.vocabulary.contract import (
    Clarify,
    ExecError,
    Feedback,
    MemoryRead,
    ToolCall,
    ToolResult,
    Ui,
)

DEADLINE_S = 20.0


def call(tool: str, /, **args: Any) -> ToolCall:
    """A call with these arguments."""
    return ToolCall(tool, Raw(msgspec.json.encode(args)))


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What can be tried on a backend after a reset to `spec`: a call that succeeds and changes nothing,
    one that succeeds and changes the state, one whose arguments have the wrong types, and one that
    takes longer than `slow_s` (None where there is none)."""

    read: ToolCall
    write: ToolCall
    spec: ResetSpec = ResetSpec()
    wrong: ToolCall | None = None
    slow: ToolCall | None = None
    slow_s: float = 1.0


class BackendContract:
    """Every backend. Override `make` and `sample`."""

    @pytest.fixture
    def make(self) -> Make:
        raise NotImplementedError

    @pytest.fixture
    def sample(self) -> Sample:
        raise NotImplementedError

    @pytest.fixture
    def fresh(self, make: Make) -> Iterator[Backend]:
        """An instance that was not reset."""
        backend = make()
        yield backend
        backend.close()

    @pytest.fixture
    def backend(self, fresh: Backend, sample: Sample) -> Backend:
        """An instance in the sample's initial conditions."""
        fresh.reset(sample.spec)
        return fresh

    @pytest.fixture
    def manifest(self, fresh: Backend) -> Manifest:
        return fresh.describe()

    # -- the manifest --------------------------------------------------------------------------

    def test_the_manifest_stays_the_same_and_can_be_written(self, fresh: Backend, sample: Sample) -> None:
        before = fresh.describe()
        fresh.reset(sample.spec)
        do(fresh, sample.write)
        assert msgspec.json.encode(fresh.describe()) == msgspec.json.encode(before)
        again = msgspec.json.decode(msgspec.json.encode(before), type=Manifest)
        assert msgspec.json.encode(again) == msgspec.json.encode(before)
        assert before.environment and before.version and before.backend
        assert "@" not in before.environment

    def test_each_tool_is_named_once_with_a_schema_and_its_digest(self, manifest: Manifest) -> None:
        names = [tool.name for tool in manifest.tools]
        assert len(set(names)) == len(names)
        Schemas(manifest.tools).check()
        assert [tool.schema_digest for tool in manifest.tools] == [named(tool).schema_digest for tool in manifest.tools]
        assert set(manifest.reads) <= set(names)
        assert set(manifest.open_world) <= set(names)

    def test_two_instances_describe_themselves_alike(self, make: Make, manifest: Manifest) -> None:
        other = make()
        try:
            assert other.describe().name == manifest.name
        finally:
            other.close()

    # -- resets ----------------------------------------------------------------------------------

    def test_nothing_is_done_before_a_reset(self, fresh: Backend, sample: Sample) -> None:
        feedback = do(fresh, sample.write)
        assert isinstance(feedback, ExecError)
        assert feedback.effect == "none"
        assert fresh.observe().state is None

    def test_a_reset_says_which_state_it_led_to(self, fresh: Backend, sample: Sample, manifest: Manifest) -> None:
        state = fresh.reset(sample.spec)
        assert (state is not None) == manifest.state
        assert fresh.observe().state == state

    def test_a_reset_leaves_nothing_of_the_last_episode(self, backend: Backend, sample: Sample) -> None:
        before = backend.observe().state
        first = do(backend, sample.write)
        assert backend.reset(sample.spec) == before
        assert like(backend, first, do(backend, sample.write))

    def test_instances_do_not_share_their_state(self, make: Make, backend: Backend, sample: Sample) -> None:
        other = make()
        try:
            before = other.reset(sample.spec)
            do(backend, sample.write)
            assert other.observe().state == before
        finally:
            other.close()

    # -- actions -----------------------------------------------------------------------------------

    def test_a_call_that_reads_changes_nothing(self, backend: Backend, sample: Sample) -> None:
        before = backend.observe()
        feedback = do(backend, sample.read)
        assert isinstance(feedback, ToolResult), feedback
        msgspec.json.decode(feedback.value)
        assert backend.observe().state == before.state

    def test_a_call_that_writes_changes_the_state(self, backend: Backend, sample: Sample, manifest: Manifest) -> None:
        before = backend.observe().state
        feedback = do(backend, sample.write)
        assert isinstance(feedback, ToolResult), feedback
        if manifest.state:
            assert backend.observe().state not in (None, before)

    def test_looking_changes_nothing(self, backend: Backend) -> None:
        assert backend.observe().state == backend.observe().state
        assert backend.evidence().digest == backend.evidence().digest == backend.observe().state

    @pytest.mark.parametrize("args", [b"{}", b'{"x":[1,{"y":null}]}'])
    def test_an_unknown_tool_is_an_error_without_effect(self, backend: Backend, args: bytes) -> None:
        before = backend.observe().state
        feedback = do(backend, ToolCall("no_such_tool_anywhere", Raw(args)))
        assert isinstance(feedback, ExecError)
        assert (feedback.class_, feedback.effect) == ("unknown_tool", "none")
        assert feedback.message
        assert backend.observe().state == before

    @pytest.mark.parametrize("args", [b"null", b"[]", b'"text"', b"1e999"])
    def test_arguments_that_are_no_object_are_an_error_without_effect(
        self, backend: Backend, sample: Sample, args: bytes
    ) -> None:
        before = backend.observe().state
        feedback = do(
            backend, ToolCall(sample.write.tool, Raw(args), args_text="{not json" if args == b"null" else None)
        )
        assert isinstance(feedback, ExecError)
        assert (feedback.class_, feedback.effect) == ("schema", "none")
        assert backend.observe().state == before

    def test_arguments_of_the_wrong_type_are_an_error_without_effect(self, backend: Backend, sample: Sample) -> None:
        if sample.wrong is None:
            pytest.skip("the sample names none: not here")
        before = backend.observe().state
        feedback = do(backend, sample.wrong)
        assert isinstance(feedback, ExecError)
        assert (feedback.class_, feedback.effect) == ("schema", "none")
        assert backend.observe().state == before

    @pytest.mark.parametrize("action", [Ui("tap"), MemoryRead("x"), Clarify("?")])
    def test_what_it_cannot_do_is_an_error_and_never_an_exception(self, backend: Backend, action: Any) -> None:
        assert isinstance(backend.execute(action, DEADLINE_S, "other"), Feedback)

    def test_a_key_that_was_answered_is_answered_the_same_and_done_once(self, backend: Backend, sample: Sample) -> None:
        first = do(backend, sample.write, "k")
        after = backend.observe().state
        assert encoded(do(backend, sample.write, "k")) == encoded(first)
        assert backend.observe().state == after

    def test_a_reset_forgets_the_keys(self, backend: Backend, sample: Sample, manifest: Manifest) -> None:
        do(backend, sample.write, "k")
        after = backend.observe().state
        backend.reset(sample.spec)
        do(backend, sample.write, "k")
        if manifest.state and manifest.determinism == "D0":
            assert backend.observe().state == after

    def test_a_call_that_takes_too_long_is_broken_off(self, backend: Backend, sample: Sample) -> None:
        if sample.slow is None:
            pytest.skip("no call of the sample is slow: not here")
        begun = time.monotonic()
        feedback = backend.execute(sample.slow, sample.slow_s, "slow")
        assert time.monotonic() - begun < sample.slow_s + 5
        assert isinstance(feedback, ExecError)
        assert (feedback.class_, feedback.effect) == ("timeout", "unknown")
        backend.reset(sample.spec)
        assert isinstance(do(backend, sample.read), ToolResult)

    # -- determinism -----------------------------------------------------------------------------------

    def test_what_is_reproducible_is_so_to_the_byte(self, make: Make, backend: Backend, sample: Sample) -> None:
        if backend.describe().determinism != "D0":
            pytest.skip("the manifest does not say D0: not here")
        other = make()
        try:
            assert other.reset(sample.spec) == backend.reset(sample.spec)
            for number, action in enumerate([sample.read, sample.write, sample.read, sample.write]):
                one, another = (do(it, action, f"k{number}") for it in (backend, other))
                assert encoded(one) == encoded(another)
                assert backend.observe().state == other.observe().state
            assert backend.evidence().digest == other.evidence().digest
            assert bytes(backend.evidence().state) == bytes(other.evidence().state)
        finally:
            other.close()

    # -- state ---------------------------------------------------------------------------------------

    def test_evidence_has_a_digest_exactly_if_there_is_a_state(self, backend: Backend, manifest: Manifest) -> None:
        evidence = backend.evidence()
        assert (evidence.digest is not None) == manifest.state
        assert (msgspec.json.decode(evidence.state) is not None) == manifest.state

    def test_a_snapshot_can_be_come_back_to_again_and_again(self, backend: Backend, sample: Sample) -> None:
        if not backend.describe().snapshots:
            with pytest.raises(UsageError):
                backend.snapshot()
            return
        kept = backend.snapshot()
        for _ in range(2):
            do(backend, sample.write, "k")
            assert backend.restore(kept) == kept.state == backend.observe().state
        assert isinstance(do(backend, sample.write, "k"), ToolResult)
        assert backend.observe().state != kept.state or kept.state is None

    # -- health and end ------------------------------------------------------------------------------

    def test_it_is_well_and_says_so(self, backend: Backend) -> None:
        assert backend.health() == (True, "")

    def test_it_can_be_closed_twice_and_does_nothing_then(self, fresh: Backend, sample: Sample) -> None:
        fresh.reset(sample.spec)
        fresh.close()
        fresh.close()
        assert isinstance(do(fresh, sample.write), ExecError)
        fresh.health()

    def test_it_can_be_closed_without_ever_being_used(self, make: Make) -> None:
        make().close()


def do(backend: Backend, action: ToolCall, key: str | None = None) -> Feedback:
    """Carry an action out, under a key of its own unless one is given."""
    return backend.execute(action, DEADLINE_S, key or f"{action.tool}:{time.monotonic_ns()}")


def encoded(feedback: Feedback) -> bytes:
    """The feedback as it would be recorded."""
    return msgspec.json.encode(feedback)


def like(backend: Backend, a: Feedback, b: Feedback) -> bool:
    """Whether two feedbacks are the same, as far as the environment promises that."""
    if backend.describe().determinism == "D0":
        return encoded(a) == encoded(b)
    return type(a) is type(b)
